// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

berth_status berth_statistics_to_text(berth_runtime* runtime, char** text) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    auto& out = require(text, "text");
    out = to_owned_text(to_text(owner.statistics()));
  });
}

berth_status berth_statistics_to_json(berth_runtime* runtime, char** json) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    auto& out = require(json, "json");
    out = to_owned_text(to_json(owner.statistics()));
  });
}
