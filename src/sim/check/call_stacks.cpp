// SPDX-License-Identifier: Apache-2.0
#include "sim/check/call_stacks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <execinfo.h>
#include <filesystem>
#include <link.h>
#include <string_view>
#include <system_error>

#include "base/format.hpp"

namespace berth::sim {
namespace {

/// With those of the simulator. Of a call from Python, those say little of the program.
constexpr int kAddressesMax = 24;
constexpr int kAddressesOfPythonMax = 12;
constexpr std::size_t kPythonFramesMax = 12;
/// Beyond that, a program without end makes stacks without end.
constexpr std::size_t kStacksMax = 100'000;

struct NativeFrame {
  std::string module;         ///< the file; empty: not known
  std::uint64_t offset = 0;   ///< as the module's own tables count, whether it can be moved or not
  std::string_view function;  ///< empty: not known
};

/// Identifies the module of an address; null for the program itself, and where it is not known.
const link_map* library_of(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return nullptr;
  return map->l_name == nullptr || *map->l_name == '\0' ? nullptr : map;
}

NativeFrame find_native_frame(const void* returns_to) {
  // The call is before the address to which it returns, which may belong to the next function.
  const auto* const address = static_cast<const char*>(returns_to) - 1;
  const auto place = reinterpret_cast<std::uint64_t>(address);
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return {{}, place, {}};
  std::error_code ignored;
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  const auto file =
      std::filesystem::canonical(is_program ? "/proc/self/exe" : map->l_name, ignored);
  return {file.string(), place - map->l_addr, info.dli_sname == nullptr ? "" : info.dli_sname};
}

std::vector<NativeFrame> native_frames(const CallStack& stack) {
  // A program that contains the simulator has frames of both.
  const link_map* const own = library_of(reinterpret_cast<const void*>(&native_frames));
  std::vector<NativeFrame> frames;
  bool is_own = own != nullptr;
  for (const void* address : stack.addresses) {
    is_own = is_own && library_of(static_cast<const char*>(address) - 1) == own;
    if (!is_own) frames.push_back(find_native_frame(address));
  }
  return frames;
}

}  // namespace

CallStacks::CallStacks(bool on) : on_(on), python_(on) {
  if (!on_) return;
  // The first call loads a library.
  std::array<void*, 1> frame{};
  static_cast<void>(backtrace(frame.data(), 1));
}

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
    lines += format_text("    {}+{:#x}{}\n", frame.module, frame.offset,
                         frame.function.empty() ? "" : format_text(" ({})", frame.function));
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
        .field("function", frame.function)
        .end_object();
}

}  // namespace berth::sim
