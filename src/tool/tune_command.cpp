// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "tool/command.hpp"
#include "tool/json_text.hpp"
#include "tool/measured_batches.hpp"
#include "tool/output.hpp"
#include "tool/progress_bar.hpp"
#include "tool/session.hpp"
#include "tool/table.hpp"

namespace berth::tool {
namespace {

struct TuneCommandOptions {
  CommonOptions common;
  int repeats = 10;
  std::string device = "cuda";
};

std::vector<MeasuredBatch> measure_all(Runtime& runtime, Device device, int repeats) {
  const std::vector<std::size_t> sizes = measured_range_sizes();
  std::vector<MeasuredBatch> batches;
  ProgressBar bar("batches", 2 * sizes.size());
  for (const CopyDirection direction : {CopyDirection::in, CopyDirection::out}) {
    for (const std::size_t bytes : sizes) {
      batches.push_back(measure_batch(runtime, device, direction, bytes, repeats));
      bar.update(batches.size());
    }
  }
  return batches;
}

std::string configuration_of(const BatchSettings& settings) {
  const auto& batched_min = settings.batched_range_bytes_min;
  return fmt::format("copy_batched_range_bytes_min={},copy_packed_range_bytes_max={}",
                     batched_min ? fmt::to_string(*batched_min) : "none",
                     settings.packed_range_bytes_max);
}

std::string table_text(const std::vector<MeasuredBatch>& batches) {
  const Table table({{"copy", 6},
                     {"range", 10, true},
                     {"together", 10, true},
                     {"one by one", 12, true},
                     {"packed", 10, true}});
  std::string text = table.header();
  for (const MeasuredBatch& batch : batches)
    text += table.row(
        {std::string(name_of(batch.direction)), format_bytes(batch.range_bytes),
         rate_text(batch.rate(BatchWay::together)), rate_text(batch.rate(BatchWay::one_by_one)),
         batch.rate(BatchWay::packed) > 0 ? rate_text(batch.rate(BatchWay::packed)) : ""});
  return text;
}

nlohmann::ordered_json to_json(const MeasuredBatch& batch) {
  nlohmann::ordered_json json{{"direction", name_of(batch.direction)},
                              {"range_bytes", batch.range_bytes},
                              {"together_bytes_per_second", batch.rate(BatchWay::together)},
                              {"one_by_one_bytes_per_second", batch.rate(BatchWay::one_by_one)},
                              {"packed_bytes_per_second", nullptr}};
  if (batch.rate(BatchWay::packed) > 0)
    json["packed_bytes_per_second"] = batch.rate(BatchWay::packed);
  return json;
}

ExitCode run_tune(const TuneCommandOptions& options) {
  const auto runtime = make_runtime(options.common);
  const Device device = require_device(*runtime, parse_cuda_device(options.device));
  const std::vector<MeasuredBatch> batches = measure_all(*runtime, device, options.repeats);
  const std::string configuration = configuration_of(fastest_settings(batches));
  if (options.common.json) {
    nlohmann::ordered_json json{{"driver", runtime->driver().name},
                                {"device", device.to_string()},
                                {"batches", nlohmann::ordered_json::array()},
                                {"configuration", configuration}};
    for (const MeasuredBatch& batch : batches) json["batches"].push_back(to_json(batch));
    print(json_text(json));
  } else {
    print(
        fmt::format("{}device: {}\n\nGB/s of batches, by the size of their ranges\n{}\n"
                    "BERTH_CONF={}\n",
                    driver_text(*runtime, options.common), device.to_string(), table_text(batches),
                    configuration));
  }
  return ExitCode::ok;
}

constexpr const char* kTuneHelp =
    R"(Batches of up to 1,024 ranges in pinned memory are copied to the device (in) and
from it (out): together in one driver call, one by one, and, from the device,
packed into staging memory, from which the host distributes them. Shown is the
fastest of --repeat, from the call to the end of the wait. The last line is the
configuration that chooses the fastest way for each size: export it, or set the
options of the Copier. Differences of less than 5 % are ignored, in favor of the
defaults. Measure on a machine without other work. On the simulated driver the
rates say nothing about a GPU.

Examples:
  berth tune
  berth tune --device cuda:1 --repeat 100 --json
)";

}  // namespace

void add_tune_command(CommandLine& berth) {
  const auto options = std::make_shared<TuneCommandOptions>();
  CommandOptions command = berth.add("tune", "Measure the fastest settings for batches of copies",
                                     [options] { return run_tune(*options); });
  command.count("--repeat", options->repeats, 1000, "Repetitions, 1 to 1000; default 10");
  command.text("--device", options->device, "DEVICE", "cuda or cuda:N; default cuda");
  add_common_options(command, options->common);
  command.footer(kTuneHelp);
}

}  // namespace berth::tool
