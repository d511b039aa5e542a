/* SPDX-License-Identifier: Apache-2.0
 * A program on the CUDA driver: cases CASE [CASE...] does the named things one after the other.
 * Nothing here knows of berth. */
#define _DEFAULT_SOURCE /* otherwise signal() in C11 lets a second signal end the program */
#include <cuda.h>

#if __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>
#define HAS_NVTX
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
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

/* Named as what nvcc makes for a kernel. */
static void __device_stub__fill(void) {
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
}

static void race_behind_stub(void) {
  prepare();
  __device_stub__fill();
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

static void warm_up(void) {
  prepare();
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
  consume();
  CHECK(cuCtxSynchronize());
}

/* Races of 120 sizes at one place. */
static void many(void) {
  prepare();
  for (size_t bytes = 1; bytes <= 120; ++bytes) {
    CHECK(cuMemsetD8Async(memory, 1, bytes, fills));
    CHECK(cuMemsetD8Async(memory, 2, bytes, copies));
    CHECK(cuCtxSynchronize());
  }
}

static void version(void) {
  int version = 0;
  CHECK(cuDriverGetVersion(&version));
  printf("version %d\n", version);
}

/* As race(), of memory that has a name. */
static void named_race(void) {
  prepare();
#ifdef HAS_NVTX
  nvtxMemRegionNameDesc_t name = {0};
  name.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  name.region.pointer = (const void*)memory;
  name.nameType = NVTX_MESSAGE_TYPE_ASCII;
  name.name.ascii = "batch";
  nvtxMemRegionsNameBatch_t names = {0};
  names.extCompatID = NVTX_EXT_COMPATID_MEM;
  names.structSize = sizeof names;
  names.regionCount = 1;
  names.regionElementSize = sizeof name;
  names.regionElements = &name;
  nvtxMemRegionsName(NULL, &names);
#else
  fputs("compiled without NVTX\n", stderr);
#endif
  race();
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

/* A graph is launched after the memory that it fills was freed. */
static void graph_after_free(void) {
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  prepare();
  CHECK(cuStreamBeginCapture(fills, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
  CHECK(cuStreamEndCapture(fills, &graph));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  CHECK(cuMemFree(memory));
  CHECK(cuGraphLaunch(executable, fills));
  if (cuStreamSynchronize(fills) != CUDA_ERROR_ILLEGAL_ADDRESS) exit(9);
}

/* Two branches of a graph use the same bytes; it is launched three times. */
static void graph_race(void) {
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  prepare();
  CHECK(cuStreamBeginCapture(fills, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuEventRecord(filled, fills));
  CHECK(cuStreamWaitEvent(copies, filled, 0));
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
  CHECK(cuMemsetD8Async(memory + 1, 1, kBytes / 2, copies));
  CHECK(cuEventRecord(filled, copies));
  CHECK(cuStreamWaitEvent(fills, filled, 0));
  CHECK(cuStreamEndCapture(fills, &graph));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) {
    CHECK(cuGraphLaunch(executable, fills));
    CHECK(cuStreamSynchronize(fills));
  }
}

/* A pool's memory is filled on another stream than that of its free, and nothing orders the two. */
static void pool_after_free(void) {
  CUdeviceptr pooled = 0;
  prepare();
  CHECK(cuMemAllocAsync(&pooled, kBytes, fills));
  CHECK(cuStreamSynchronize(fills));
  CHECK(cuMemFreeAsync(pooled, fills));
  CHECK(cuMemsetD8Async(pooled, 1, kBytes, copies));
  (void)cuCtxSynchronize();
}

/* Two calls that fail. */
static void refused(void) {
  prepare();
  if (cuMemFree(memory + 1) == CUDA_SUCCESS) exit(9);
  if (cuStreamQuery((CUstream)&context) == CUDA_SUCCESS) exit(9);
}

/* The host waits without a call for a word that a stream writes. */
static void silent(void) {
  const time_t begin = time(NULL);
  unsigned* word = NULL;
  prepare();
  CHECK(cuMemHostAlloc((void**)&word, sizeof *word, 0));
  *word = 0;
  CHECK(cuMemsetD8Async(memory, 1, kBytes, fills));
  CHECK(cuStreamWriteValue32(fills, (CUdeviceptr)word, 1, 0));
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 1)
    if (time(NULL) - begin > 60) exit(9);
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

/* By this text the runtime is recognized in a file. */
static const char* const volatile kOfRuntime = "cudaErrorMissingConfiguration";

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

static void launch_on(CUstream stream, int count) {
  static const char kCode[] = ".version 8.0\n.target sm_80\n.visible .entry add()\n{ ret; }\n";
  CUmodule module = NULL;
  CUfunction add = NULL;
  CHECK(cuModuleLoadData(&module, kCode));
  CHECK(cuModuleGetFunction(&add, module, "add"));
  for (int i = 0; i < count; ++i)
    CHECK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void launch(void) {
  prepare();
  launch_on(fills, 3);
  CHECK(cuCtxSynchronize());
}

/* A launch of a kernel is captured once, and the graph launched three times. */
static void launch_graph(void) {
  CUgraph graph = NULL;
  CUgraphExec executable = NULL;
  prepare();
  CHECK(cuStreamBeginCapture(fills, CU_STREAM_CAPTURE_MODE_RELAXED));
  launch_on(fills, 1);
  CHECK(cuStreamEndCapture(fills, &graph));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cuGraphLaunch(executable, fills));
  CHECK(cuCtxSynchronize());
}

static void release(void) {
  CHECK(cuDevicePrimaryCtxRelease(0));
}

/* What the program made lives until its exit handlers release the context. */
static void release_at_exit(void) {
  atexit(release);
  prepare();
}

/* Two fills that nothing orders and nothing waits for. */
static void unwaited(void) {
  prepare();
  produce();
  CHECK(cuMemsetD8Async(memory, 2, kBytes, copies));
}

static void nothing(void) {
  (void)kOfRuntime;
}

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
              {"race-behind-stub", race_behind_stub},
              {"named-race", named_race},
              {"warm-up", warm_up},
              {"many", many},
              {"version", version},
              {"ordered", ordered},
              {"two-fills", two_fills},
              {"unwaited", unwaited},
              {"sometimes", sometimes},
              {"leak", leak},
              {"stall", stall},
              {"graph-after-free", graph_after_free},
              {"graph-race", graph_race},
              {"pool-after-free", pool_after_free},
              {"refused", refused},
              {"silent", silent},
              {"launch", launch},
              {"launch-graph", launch_graph},
              {"release-at-exit", release_at_exit},
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
