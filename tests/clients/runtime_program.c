/* SPDX-License-Identifier: Apache-2.0
 * A C program on the CUDA runtime, linked as `nvcc --cudart shared` links it. Only functions whose
 * binary interface is the same in both majors. Prints what it has seen; exits with 1 at an error.
 * With the argument "race" it forgets a wait.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

enum { kBytes = 1 << 16 };

static int failed(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return 0;
  fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  return 1;
}
#define CHECK(call) \
  if (failed(call, #call)) return 1

int main(int count, char** arguments) {
  const int forgets = count == 2 && strcmp(arguments[1], "race") == 0;
  static unsigned char back[kBytes];
  int version = 0, devices = 0;
  void *memory = NULL, *pinned = NULL;
  cudaStream_t upload, download;
  cudaEvent_t uploaded;
  CHECK(cudaRuntimeGetVersion(&version));
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaMalloc(&memory, kBytes));
  CHECK(cudaMallocHost(&pinned, kBytes));
  CHECK(cudaStreamCreateWithFlags(&upload, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&download, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&uploaded, cudaEventDisableTiming));
  memset(pinned, 7, kBytes);
  CHECK(cudaMemcpyAsync(memory, pinned, kBytes, cudaMemcpyHostToDevice, upload));
  CHECK(cudaEventRecord(uploaded, upload));
  if (!forgets) CHECK(cudaStreamWaitEvent(download, uploaded, 0));
  CHECK(cudaMemcpyAsync(back, memory, kBytes, cudaMemcpyDeviceToHost, download));
  CHECK(cudaStreamSynchronize(download));
  printf("CUDA %d, %d devices, bytes %s\n", version / 1000, devices,
         memcmp(back, pinned, kBytes) == 0 ? "equal" : "differ");
  CHECK(cudaFree(memory));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaDeviceReset());
  return 0;
}
