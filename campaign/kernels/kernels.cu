// SPDX-License-Identifier: Apache-2.0
// The kernels of a campaign. Compiled on the machine itself, so without any header.

typedef unsigned long long Word;

static __device__ Word nanoseconds() {
  Word now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Different for each index and seed, and of 64 random bits.
static __device__ Word mixed(Word index, Word seed) {
  Word x = index + seed * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Keeps its processor busy for that time.
extern "C" __global__ void spin(Word duration_ns) {
  const Word begin = nanoseconds();
  while (nanoseconds() - begin < duration_ns) {
  }
}

/// Runs for that time, and writes the longest time between two iterations of its loop, which shows
/// whether the kernel was stopped meanwhile. The resolution of the timer is part of that time. Each
/// iteration reads a word of another page of `words`, which are zeros, and waits for it; no word if
/// `count` is 0.
extern "C" __global__ void notice_stalls(Word duration_ns, const volatile Word* words, Word count,
                                         Word* longest_ns) {
  const Word page = (2 << 20) / sizeof(Word) + 16;  // with a different cache line in each
  const Word begin = nanoseconds();
  Word last = begin;
  Word longest = 0;
  Word at = 0;
  while (last - begin < duration_ns) {
    if (count > 0) at = (at + page + words[at]) % count;
    const Word now = nanoseconds() + (at >> 63);  // only after the word has arrived
    if (now - last > longest) longest = now - last;
    last = now;
  }
  *longest_ns = longest;
}

/// Writes words that depend on their index and the seed.
extern "C" __global__ void fill(Word* words, Word count, Word seed) {
  const Word step = (Word)gridDim.x * blockDim.x;
  for (Word i = (Word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    words[i] = mixed(i, seed);
  }
}

/// Counts the words that differ from those of fill().
extern "C" __global__ void check(const Word* words, Word count, Word seed, Word* mismatches) {
  const Word step = (Word)gridDim.x * blockDim.x;
  for (Word i = (Word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    if (words[i] != mixed(i, seed)) atomicAdd(mismatches, 1ULL);
  }
}

/// Fails, which makes the context of its process fail.
extern "C" __global__ void fail() { asm volatile("trap;"); }
