"""The CUDA backend: kernels compiled by NVRTC at run time, their layout and their launch."""
