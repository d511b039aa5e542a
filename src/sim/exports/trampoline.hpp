// SPDX-License-Identifier: Apache-2.0
// Gives a function a second, exported name: one jump, which leaves arguments, stack and result
// alone. In assembly, because C++ has no alias for a function of another file, and because these
// names must never be seen by the compiler where cuda.h or nvml.h declare them. Each macro stands at
// namespace scope, with its names as string literals.
#pragma once

#if defined(__x86_64__)
#define BERTH_SIM_JUMP(target) "jmp " target
#define BERTH_SIM_JUMP_OUT(target) "jmp " target "@PLT"
#define BERTH_SIM_JUMP_THROUGH(pointer) "jmp *" pointer "(%rip)"
#elif defined(__aarch64__)
#define BERTH_SIM_JUMP(target) "b " target
#define BERTH_SIM_JUMP_OUT(target) "b " target
// x16 is for such jumps: no argument is in it.
#define BERTH_SIM_JUMP_THROUGH(pointer) \
  "adrp x16, " pointer "\nldr x16, [x16, :lo12:" pointer "]\nbr x16"
#else
#error "no trampoline for this architecture; accepted: x86-64 and AArch64"
#endif

#define BERTH_SIM_TRAMPOLINE(name, jump)        \
  ".text\n"                                     \
  ".balign 16\n"                                \
  ".globl " name                                \
  "\n"                                          \
  ".type " name ", %function\n" name ":\n" jump \
  "\n"                                          \
  ".size " name ", . - " name "\n"

/// `target` is a hidden function of this library.
#define BERTH_SIM_EXPORT(name, target) \
  asm(BERTH_SIM_TRAMPOLINE(name, BERTH_SIM_JUMP(target)) ".hidden " target "\n");

/// `pointer` is a hidden variable of this library that points to the function.
#define BERTH_SIM_EXPORT_POINTER(name, pointer) \
  asm(BERTH_SIM_TRAMPOLINE(name, BERTH_SIM_JUMP_THROUGH(pointer)) ".hidden " pointer "\n");

/// `target` is a function of another library.
#define BERTH_SIM_EXPORT_BORROWED(name, target) \
  asm(BERTH_SIM_TRAMPOLINE(name, BERTH_SIM_JUMP_OUT(target)));
