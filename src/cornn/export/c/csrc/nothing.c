/* An empty model, to measure a program without a model. */
#include "model.h"

void model_reset(model_state *state)
{
    (void)state;
}

#ifdef MODEL_WORDS
void model_step(model_state *state, uint32_t word)
{
    (void)state, (void)word;
}
#else
void model_step(model_state *state, const float input[MODEL_INPUTS])
{
    (void)state, (void)input;
}
#endif

void model_read(const model_state *state, float output[MODEL_OUTPUTS])
{
    (void)state;
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        output[i] = 0.0f;
}
