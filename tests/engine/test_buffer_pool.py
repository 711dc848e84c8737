"""Memory that is used again: nobody may get what somebody else still holds."""

import errno
import gc
import mmap
import sys
import threading

import pytest
import torch

from cornn import engine
from cornn.engine import _buffer_pool
from cornn.engine._buffer_pool import LARGE, take_buffer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere memory is PyTorch's own")
SHAPE = (LARGE // 4, 2)


@pytest.fixture(autouse=True)
def _nothing_spare(monkeypatch):
    monkeypatch.setattr(_buffer_pool, "_spare", [])


def test_memory_comes_back_when_nothing_refers_to_it():
    tensor = take_buffer(SHAPE, torch.float32)
    address = tensor.data_ptr()
    part = tensor[5:7]
    del tensor
    assert _buffer_pool._spare == []
    del part
    assert len(_buffer_pool._spare) == 1
    assert take_buffer(SHAPE, torch.float32).data_ptr() == address


def test_a_system_without_large_pages_has_buffers_too(monkeypatch):
    class Plain(mmap.mmap):
        def madvise(self, *arguments):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(_buffer_pool.mmap, "mmap", Plain)
    assert take_buffer(SHAPE, torch.float32).fill_(1).eq(1).all()


def test_what_is_held_is_not_handed_out():
    held = take_buffer(SHAPE, torch.float32).fill_(1)
    other = take_buffer(SHAPE, torch.float32).fill_(2)
    assert held.data_ptr() != other.data_ptr()
    assert held.eq(1).all()


def test_a_graph_holds_what_it_saved():
    weight = torch.ones(2, requires_grad=True)
    saved = take_buffer(SHAPE, torch.float32).fill_(3)
    product = weight * saved
    del saved
    gc.collect()
    take_buffer(SHAPE, torch.float32).fill_(4)
    (gradient,) = torch.autograd.grad(product.sum(), weight)
    assert gradient[0] == 3 * SHAPE[0]


def test_memory_much_larger_than_needed_stays_for_others():
    take_buffer((3 * LARGE,), torch.float32)
    assert len(_buffer_pool._spare) == 1
    small = take_buffer((LARGE,), torch.float32)
    assert len(_buffer_pool._spare) == 1
    assert small.shape == (LARGE,)


def test_only_so_much_is_kept(monkeypatch):
    monkeypatch.setattr(_buffer_pool, "SPARE_BYTES", 3 * LARGE)
    tensors = [take_buffer((LARGE,), torch.uint8 if i else torch.int8) for i in range(5)]
    assert len({tensor.data_ptr() for tensor in tensors}) == 5
    tensors.clear()
    assert sum(map(len, _buffer_pool._spare)) == 3 * LARGE


def test_spare_memory_can_be_given_back():
    take_buffer(SHAPE, torch.float32)
    engine.release_buffers()
    assert _buffer_pool._spare == []


def test_small_tensors_are_pytorchs_own():
    take_buffer((10, 2), torch.float64)
    assert _buffer_pool._spare == []


def test_it_is_poisoned_where_pytorchs_own_is():
    take_buffer(SHAPE, torch.float32).fill_(1)
    torch.use_deterministic_algorithms(True)
    try:
        assert take_buffer(SHAPE, torch.float32).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_several_threads_never_share():
    wrong = []

    def work(number):
        for _ in range(30):
            tensor = take_buffer(SHAPE, torch.float32)
            tensor[::1000] = number
            if not tensor[::1000].eq(number).all():
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
