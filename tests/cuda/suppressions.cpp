// What NVIDIA's libraries keep until the process ends is no leak of ours.

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libcudnn\nleak:libnvrtc\nleak:libcublas\nleak:libcuda\n";
}
