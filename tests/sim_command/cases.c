/* SPDX-License-Identifier: Apache-2.0
 * A program on the CUDA driver: cases CASE [CASE...] does the named things one after the other.
 * Nothing here knows of berth. */
#include <cuda.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 20 };

static CUcontext context;
static CUdeviceptr memory;
static CUstream fills, copies;
static CUevent filled;
static unsigned char host[kBytes];

static void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: error %d\n", call, (int)result);
  exit(9);
}
#define CHECK(call) check(call, #call)

static void prepare(void) {
  if (context != NULL) return;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&memory, kBytes));
  CHECK(cuStreamCreate(&fills, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
}

static void produce(void) {
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
  CHECK(cuEventRecord(filled, fills));
}

static void consume(void) {
  CHECK(cuMemcpyDtoHAsync(host, memory, kBytes, copies));
}

static void race(void) {
  prepare();
  produce();
  consume();
  CHECK(cuCtxSynchronize());
}

static void ordered(void) {
  prepare();
  produce();
  CHECK(cuStreamWaitEvent(copies, filled, 0));
  consume();
  CHECK(cuCtxSynchronize());
}

/* Another mistake than race(): two fills. */
static void two_fills(void) {
  prepare();
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
  CHECK(cuMemsetD8Async(memory, 2, kBytes, copies));
  CHECK(cuCtxSynchronize());
}

/* A race if the fill has not run yet, as in some orders. */
static void sometimes(void) {
  prepare();
  produce();
  if (cuEventQuery(filled) == CUDA_SUCCESS) CHECK(cuStreamWaitEvent(copies, filled, 0));
  consume();
  CHECK(cuCtxSynchronize());
}

static void leak(void) {
  prepare();
  CHECK(cuDevicePrimaryCtxRelease(0));
}

/* A stream waits for a value that nobody writes. */
static void stall(void) {
  unsigned* word = NULL;
  prepare();
  CHECK(cuMemHostAlloc((void**)&word, sizeof *word, 0));
  *word = 0;
  CHECK(cuStreamWaitValue32(fills, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  if (cuStreamSynchronize(fills) == CUDA_SUCCESS) exit(9);
}

static void in_child(void (*child)(void)) {
  const pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(0);
  }
  waitpid(pid, NULL, 0);
}

static void on_term(int number) {
  (void)number;
  static const char kText[] = "asked to end\n";
  if (write(1, kText, sizeof kText - 1) < 0) _exit(8);
  _exit(7);
}

static void wait_for_signal(void) {
  signal(SIGTERM, on_term);
  puts("waiting");
  fflush(stdout);
  for (;;) pause();
}

static void private_table(void) {
  static const CUuuid kId = {"0123456789abcde"};
  const void* table = NULL;
  CHECK(cuInit(0));
  if (cuGetExportTable(&table, &kId) == CUDA_SUCCESS) exit(9);
}

static void devices(void) {
  int count = 0;
  size_t bytes = 0;
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&count));
  CHECK(cuDeviceTotalMem(&bytes, 0));
  printf("%d devices of %zu MiB\n", count, bytes >> 20);
}

static void crash(void) {
  raise(SIGSEGV);
}

static void be_killed(void) {
  raise(SIGKILL);
}

static void launch(void) {
  static const char kCode[] = ".version 8.0\n.target sm_80\n.visible .entry add()\n{ ret; }\n";
  CUmodule module = NULL;
  CUfunction add = NULL;
  prepare();
  CHECK(cuModuleLoadData(&module, kCode));
  CHECK(cuModuleGetFunction(&add, module, "add"));
  for (int i = 0; i < 3; ++i) CHECK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, fills, NULL, NULL));
  CHECK(cuCtxSynchronize());
}

static void nothing(void) {}

static void race_in_child(void) {
  in_child(race);
}

static void loop(void) {
  for (int i = 0; i < 200; ++i) race();
}

static const struct {
  const char* name;
  void (*function)(void);
} kCases[] = {{"race", race},
              {"ordered", ordered},
              {"two-fills", two_fills},
              {"sometimes", sometimes},
              {"leak", leak},
              {"stall", stall},
              {"launch", launch},
              {"race-in-child", race_in_child},
              {"private-table", private_table},
              {"devices", devices},
              {"wait", wait_for_signal},
              {"crash", crash},
              {"kill", be_killed},
              {"nothing", nothing},
              {"loop", loop}};

static void do_case(const char* name) {
  int code = 10;
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (strcmp(name, kCases[i].name) != 0) continue;
    kCases[i].function();
    return;
  }
  sscanf(name, "exit=%d", &code);
  exit(code);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "exec") == 0) {
      char* const after[] = {argv[0], "race", NULL};
      execv("/proc/self/exe", after);
    }
    do_case(argv[i]);
  }
  return 0;
}
