"""The training loop that the estimators and the laboratory share."""

import torch

from cornn._fit_loop import fit_loop, set_learning_rates, take_step


def line():
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    batches = [torch.randn(5, 2) for _ in range(6)]
    return model, batches, lambda model, batch: (model(batch) - batch.sum(1, keepdim=True)).square().mean()


def test_it_takes_the_steps_that_are_written_out():
    model, batches, loss = line()
    by_hand, _, _ = line()
    optimiser = torch.optim.Adam(by_hand.parameters(), lr=0.1)
    values = []
    for step, batch in enumerate(batches, 1):
        optimiser.param_groups[0]["lr"] = 0.1 / step
        optimiser.zero_grad()
        values.append(loss(by_hand, batch))
        values[-1].backward()
        optimiser.step()
    seen = []
    own = torch.optim.Adam(model.parameters(), lr=0.1)
    fit_loop(model, batches, loss, own, lambda step: [0.1 / step], [lambda step, value: seen.append((step, value))])
    assert seen == list(enumerate(values, 1))
    assert not any(value.requires_grad for _, value in seen)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), by_hand.parameters(), strict=True))


def test_a_callback_ends_training_and_the_others_still_see_the_step():
    model, batches, loss = line()
    seen = []
    callbacks = [lambda step, value: step == 7, lambda step, value: seen.append(step)]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    fit_loop(model, batches, loss, optimiser, lambda step: [0.1], callbacks, first=5)
    assert seen == [5, 6, 7]


def test_another_step_may_be_given():
    model, batches, loss = line()
    calls = []

    def counted(*arguments):
        calls.append(arguments[1])
        return take_step(*arguments)

    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    fit_loop(model, batches, loss, optimiser, lambda step: [0.1], take_step=counted)
    assert calls == batches


def test_a_learning_rate_that_is_a_tensor_is_changed_in_place():
    rate = torch.tensor(1.0)
    groups = [{"params": [torch.zeros(2)], "lr": rate}, {"params": [torch.zeros(3)], "lr": 1.0}]
    optimiser = torch.optim.AdamW(groups, fused=True)
    set_learning_rates(optimiser, [0.25, 0.5])
    assert optimiser.param_groups[0]["lr"] is rate
    assert (rate.item(), optimiser.param_groups[1]["lr"]) == (0.25, 0.5)
