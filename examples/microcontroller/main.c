/* The program of a device: it processes one sample at a time, here from stdin, and prints the class. */
#include <stdio.h>

#include "model.h"

static const char *const names[MODEL_OUTPUTS] = {"lift", "push", "rest"};

int main(void)
{
    model_state state;
    float sample[MODEL_INPUTS], output[MODEL_OUTPUTS];
    model_reset(&state);
    for (int n = 1; scanf("%f %f %f", &sample[0], &sample[1], &sample[2]) == MODEL_INPUTS; n++) {
        model_step(&state, sample);
        if (n % 16 == 0) {
            int best = 0;
            model_read(&state, output);
            for (int i = 1; i < MODEL_OUTPUTS; i++)
                best = output[i] > output[best] ? i : best;
            printf("after %d samples: %s\n", n, names[best]);
        }
    }
    return 0;
}
