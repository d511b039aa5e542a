// SPDX-License-Identifier: Apache-2.0
// Exports a function of libberth_sim under another name by one jump, which preserves arguments,
// stack and result. In assembly, because C++ has no alias for a function of another library, and
// the compiler must never see the names that cuda.h and nvml.h declare. Use each macro at namespace
// scope, with string literals as names.
#pragma once

#if defined(__x86_64__)
#define BERTH_SIM_JUMP(target) "jmp " target "@PLT"
// r11 and x16 below carry no argument.
#define BERTH_SIM_JUMP_THROUGH(pointer) "movq " pointer "@GOTPCREL(%rip), %r11\njmp *(%r11)"
#elif defined(__aarch64__)
#define BERTH_SIM_JUMP(target) "b " target
#define BERTH_SIM_JUMP_THROUGH(pointer) \
  "adrp x16, :got:" pointer "\nldr x16, [x16, :got_lo12:" pointer "]\nldr x16, [x16]\nbr x16"
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

/// `target` is a function of libberth_sim.
#define BERTH_SIM_EXPORT(name, target) asm(BERTH_SIM_TRAMPOLINE(name, BERTH_SIM_JUMP(target)));

/// `pointer` is a variable of libberth_sim that points to the function.
#define BERTH_SIM_EXPORT_POINTER(name, pointer) \
  asm(BERTH_SIM_TRAMPOLINE(name, BERTH_SIM_JUMP_THROUGH(pointer)));
