// SPDX-License-Identifier: Apache-2.0
// A library of NVIDIA's, opened at run time where there is one, and pools of its handles.
#pragma once

#include <berth/handle_pool.hpp>
#include <dlfcn.h>
#include <initializer_list>
#include <optional>
#include <string>

#include "../core/library.hpp"

namespace mini {

/// A handle, which is null if a stand-in takes the place of the library, and the stream it is on.
struct NativeHandle {
  void* native = nullptr;
  std::optional<berth::StreamRef> stream = std::nullopt;
};

class NativeLibrary {
 public:
  /// Opens the first of the files that there is; none on the simulator.
  explicit NativeLibrary(std::initializer_list<const char*> files) {
    if (library().runtime.driver().name == "sim") return;
    for (const char* file : files)
      if (file_ == nullptr) file_ = dlopen(file, RTLD_NOW);
  }

  [[nodiscard]] bool is_open() const { return file_ != nullptr; }

  /// Calls a function that returns 0 if it succeeds.
  template <class Function, class... Values>
  void call(const char* name, Values... values) const {
    auto* const function = reinterpret_cast<Function*>(dlsym(file_, name));
    const int code = function == nullptr ? -1 : function(values...);
    if (code != 0)
      throw berth::NotSupported(std::string(name) + " failed with code " + std::to_string(code));
  }

  /// Creates, destroys and binds handles by the functions of these names.
  [[nodiscard]] berth::HandlePoolOptions<NativeHandle> handles(const char* create,
                                                               const char* destroy,
                                                               const char* set_stream) const {
    berth::HandlePoolOptions<NativeHandle> options;
    options.create = [this, create] {
      NativeHandle handle;
      if (is_open()) call<int(void**)>(create, &handle.native);
      return handle;
    };
    options.destroy = [this, destroy](NativeHandle& handle) {
      if (is_open()) call<int(void*)>(destroy, handle.native);
    };
    options.bind = [this, set_stream](NativeHandle& handle, berth::StreamRef stream) {
      handle.stream = stream;
      if (is_open()) call<int(void*, CUstream_st*)>(set_stream, handle.native, stream.native());
    };
    return options;
  }

 private:
  void* file_ = nullptr;
};

}  // namespace mini
