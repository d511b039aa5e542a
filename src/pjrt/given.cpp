// SPDX-License-Identifier: Apache-2.0
#include "pjrt/given.hpp"

#include "berth/error.hpp"

#include "base/format.hpp"

namespace berth::pjrt {

void refuse(const Api& api, const char* function, const std::string& what) {
  throw BackendError(format_text("{}: {} gave {}", api.path(), function, what),
                     static_cast<int>(Code::internal));
}

void refuse_nothing(const Api& api, const char* what) {
  throw BackendError(
      format_text("{}: the plug-in reported success and gave no {}", api.path(), what),
      static_cast<int>(Code::internal));
}

void require_count(const Api& api, const char* function, bool is_null, std::size_t count) {
  if (count > kGivenMax) {
    refuse(api, function, format_text("a size of {}; accepted: at most {}", count, kGivenMax));
  }
  if (is_null && count > 0) refuse(api, function, format_text("null and a size of {}", count));
}

std::string_view require_text(const Api& api, const char* function, const char* text,
                              std::size_t bytes) {
  require_count(api, function, text == nullptr, bytes);
  return {text, bytes};
}

}  // namespace berth::pjrt
