// Of programs other than tests_fuzz, which counts these calls of the compiler (guidance.cpp).

extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {}
