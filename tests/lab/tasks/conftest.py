import pytest
import tiny


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All data sets in one folder."""
    place = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        tiny.write_mnist(place, patch)
        tiny.write_cifar10(place, patch)
        tiny.write_har(place)
        tiny.write_imdb(place)
        tiny.write_glove(place)
        yield place
