/* Clears what an update defines, for the next one. */
#undef UPDATE
#undef UPDATE_NAME
#undef IMPLICIT
#undef STATES
#undef DRIVES
#undef PRODUCTS
#undef KEPT
#undef PARAMETERS
#undef COEFFICIENTS
#undef STATE_STRIDE
#undef PRODUCT_STRIDE
#undef SCRATCH_SIZE
#undef CONSTANTS_SIZE
#undef WEIGHTS
