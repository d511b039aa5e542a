// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "berth/configuration.hpp"

#include "tool/command.hpp"
#include "tool/json_text.hpp"
#include "tool/output.hpp"
#include "tool/session.hpp"
#include "tool/table.hpp"
#include "tool/wrapped.hpp"

namespace berth::tool {
namespace {

/// A key with its default value.
struct Row {
  ConfigurationEntry is;
  std::string by_default;
};

std::vector<Row> rows_of(const RuntimeOptions& options) {
  std::vector<Row> rows;
  for (ConfigurationEntry& entry : describe(options)) rows.push_back({std::move(entry), {}});
  const auto defaults = describe({});
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].by_default = defaults.at(i).value;
  return rows;
}

std::string rows_text(const std::vector<Row>& rows) {
  const Table table({{"key", 26}, {"value", 22}, {"default", 0}});
  std::string text = table.header();
  for (const Row& row : rows) {
    text += table.row({row.is.key, row.is.value, row.by_default});
    text += wrapped(row.is.accepted, 2);
  }
  return text;
}

nlohmann::ordered_json rows_json(const std::vector<Row>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"key", row.is.key},
                    {"value", row.is.value},
                    {"default", row.by_default},
                    {"accepted", row.is.accepted}});
  }
  return list;
}

ExitCode show_configuration(const CommonOptions& options) {
  const auto runtime = make_runtime(options);
  const std::vector<Row> rows = rows_of(runtime->options());
  if (options.json)
    print(json_text(rows_json(rows)));
  else
    print(driver_text(*runtime, options) + "\n" + rows_text(rows));
  return ExitCode::ok;
}

}  // namespace

void add_config_command(CommandLine& berth) {
  const auto options = std::make_shared<CommonOptions>();
  CommandOptions command = berth.add("config", "List all options and their values under BERTH_CONF",
                                     [options] { return show_configuration(*options); });
  add_common_options(command, *options);
  command.footer(
      "The options of a Runtime whose program sets none: values, defaults and accepted\n"
      "values. BERTH_CONF=key=value,... changes them for every program that embeds\n"
      "berth; its errors are printed first.\n\n"
      "Examples:\n"
      "  berth config\n"
      "  BERTH_CONF=bytes_reserved_max=90%,release_unused_after=10s berth config\n"
      "  berth config --json\n");
}

}  // namespace berth::tool
