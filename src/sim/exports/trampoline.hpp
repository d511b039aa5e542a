// SPDX-License-Identifier: Apache-2.0
// Gives a hidden function a second, exported name: one jump, which leaves arguments, stack and
// result alone. In assembly, because C++ has no alias for a function of another file, and because
// these names must never be seen by the compiler where cuda.h or nvml.h declare them.
#pragma once

#if defined(__x86_64__)
#define BERTH_SIM_JUMP "jmp"
#elif defined(__aarch64__)
#define BERTH_SIM_JUMP "b"
#else
#error "no trampoline for this architecture; accepted: x86-64 and AArch64"
#endif

/// At namespace scope, with both names as string literals.
#define BERTH_SIM_EXPORT(name, target)                                   \
  asm(".text\n"                                                          \
      ".balign 16\n"                                                     \
      ".globl " name                                                     \
      "\n"                                                               \
      ".type " name ", %function\n" name ":\n" BERTH_SIM_JUMP " " target \
      "\n"                                                               \
      ".size " name ", . - " name                                        \
      "\n"                                                               \
      ".hidden " target "\n");
