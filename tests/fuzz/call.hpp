// SPDX-License-Identifier: Apache-2.0
// From a function and the kinds of its parameters to a call that an input decides.
#pragma once

#include <string_view>
#include <tuple>

#include "fuzz/turn.hpp"

namespace berth::fuzz {

/// The kinds of the parameters of `function`; the tables of rows say which, by BERTH_FUZZ.
struct Missing {};
template <auto function>
inline constexpr auto kParameters = Missing{};

/// A row: BERTH_FUZZ(symbol, kind of the first parameter, ...).
#define BERTH_FUZZ(symbol, ...) \
  template <>                   \
  inline constexpr auto kParameters<&::berth::sim::berth_sim_##symbol> = std::tuple{__VA_ARGS__};

template <auto function>
inline constexpr bool kHasRow =
    !std::is_same_v<std::remove_cv_t<decltype(kParameters<function>)>, Missing>;

/// What a call came to.
struct CallResult {
  int code;      ///< 0 where it succeeded
  bool is_cuda;  ///< otherwise of NVML
};

/// Stops where the code is none that the library knows.
CallResult check_result(CUresult code);
CallResult check_result(nvml::Return code);
CallResult check_result(const char* text);

/// Calls `callee`, which takes the parameters of `function`.
template <auto function, class Callee>
CallResult call(Callee callee, Turn& turn) {
  return std::apply(
      [&](const auto&... kinds) {
        // Braces, so that the first parameter is drawn first.
        std::tuple<decltype(kinds.draw(turn))...> drawn{kinds.draw(turn)...};
        return std::apply(
            [&](auto&... parameters) {
              const CallResult result = check_result(callee(parameters.value()...));
              (parameters.after(turn, result.code == 0), ...);
              return result;
            },
            drawn);
      },
      kParameters<function>);
}

/// Anything that an input can make happen.
struct Action {
  std::string_view name;
  CallResult (*act)(Turn& turn);
};

}  // namespace berth::fuzz
