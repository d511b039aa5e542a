// SPDX-License-Identifier: Apache-2.0
#include "sim/check/call_stacks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <execinfo.h>
#include <filesystem>
#include <link.h>
#include <string_view>
#include <system_error>

#include "base/format.hpp"

namespace berth::sim {
namespace {

/// Including the frames of the simulator. In a call from Python, few of these are the program's.
constexpr int kAddressesMax = 32;
constexpr int kAddressesOfPythonMax = 12;
constexpr std::size_t kPythonFramesMax = 12;
/// The limit of distinct stacks: a program may make them without end.
constexpr std::size_t kStacksMax = 100'000;

struct NativeFrame {
  std::string module;        ///< the file; empty: unknown
  std::uint64_t offset = 0;  ///< relative to the module's link address
};

/// The module that contains an address. dladdr() would take the loader's lock, which a thread holds
/// while a library that it loads runs initialization code, such as a driver call.
struct Module {
  std::uint64_t address;
  std::uint64_t base = 0;
  const char* file = nullptr;  ///< empty for the program itself; null: no module contains it
};

int compare_with_module(dl_phdr_info* info, std::size_t, void* searched) {
  Module& module = *static_cast<Module*>(searched);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const std::uint64_t offset = module.address - info->dlpi_addr - segment.p_vaddr;
    if (segment.p_type != PT_LOAD || offset >= segment.p_memsz) continue;
    module.base = info->dlpi_addr;
    module.file = info->dlpi_name;
    return 1;
  }
  return 0;
}

Module find_module(const void* address) {
  Module module{reinterpret_cast<std::uint64_t>(address)};
  dl_iterate_phdr(compare_with_module, &module);
  return module;
}

NativeFrame describe(const Module& module) {
  if (module.file == nullptr) return {{}, module.address};
  std::error_code ignored;
  const char* const file = *module.file == '\0' ? "/proc/self/exe" : module.file;
  return {std::filesystem::canonical(file, ignored).string(), module.address - module.base};
}

/// Whether it is berth's CUDA runtime: NVIDIA's does not run on the simulator.
bool is_runtime(const Module& module) {
  const std::string_view file = module.file == nullptr ? "" : module.file;
  return file.substr(file.rfind('/') + 1).starts_with("libcudart.so");
}

std::vector<NativeFrame> native_frames(const CallStack& stack) {
  const Module own = find_module(reinterpret_cast<const void*>(&native_frames));
  // A program that contains the simulator has frames of both in one module.
  bool is_own = own.file != nullptr && *own.file != '\0';
  std::vector<NativeFrame> frames;
  for (const void* returns_to : stack.addresses) {
    // The call precedes its return address, which may belong to the next function.
    const Module module = find_module(static_cast<const char*>(returns_to) - 1);
    is_own = is_own && (module.base == own.base || is_runtime(module));
    if (!is_own) frames.push_back(describe(module));
  }
  return frames;
}

/// The first call of backtrace() loads a library, which takes the loader's lock.
[[gnu::constructor]] void prepare_backtrace() {
  std::array<void*, 1> frame{};
  static_cast<void>(backtrace(frame.data(), 1));
}

}  // namespace

CallStacks::CallStacks(bool on) : on_(on), python_(on) {}

std::size_t CallStacks::Hash::operator()(const CallStack& stack) const {
  std::uint64_t hash = 0xcbf29ce484222325;  // as FNV-1a, over words
  const auto add = [&](const void* word) {
    hash = (hash ^ reinterpret_cast<std::uint64_t>(word)) * 0x100000001b3;
  };
  std::for_each(stack.addresses.begin(), stack.addresses.end(), add);
  std::for_each(stack.python.begin(), stack.python.end(), add);
  return hash ^ hash >> 32;
}

const CallStack* CallStacks::here() {
  if (!on_) return nullptr;
  current_.python.clear();
  python_.take(current_.python, kPythonFramesMax);
  const int wanted = current_.python.empty() ? kAddressesMax : kAddressesOfPythonMax;
  current_.addresses.resize(kAddressesMax);
  const int taken = backtrace(current_.addresses.data(), wanted);
  current_.addresses.resize(static_cast<std::size_t>(taken));
  const auto known = stacks_.find(current_);
  if (known != stacks_.end()) return &*known;
  return stacks_.size() == kStacksMax ? nullptr : &*stacks_.insert(current_).first;
}

std::string describe(const CallStack& stack) {
  std::string lines;
  for (const PythonPlace* place : stack.python)
    lines += format_text("    {}:{} in {}\n", place->file, place->line, place->function);
  for (const NativeFrame& frame : native_frames(stack))
    lines += format_text("    {}+{:#x}\n", frame.module, frame.offset);
  return lines;
}

void append_frames(JsonWriter& json, const CallStack& stack) {
  for (const PythonPlace* place : stack.python)
    json.begin_object()
        .field("file", std::string_view(place->file))
        .field("line", place->line)
        .field("function", std::string_view(place->function))
        .end_object();
  for (const NativeFrame& frame : native_frames(stack))
    json.begin_object()
        .field("module", std::string_view(frame.module))
        .field("offset", frame.offset)
        .field("function", "")
        .end_object();
}

}  // namespace berth::sim
