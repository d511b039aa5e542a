// SPDX-License-Identifier: Apache-2.0
// The command `berth`: runs a subcommand, and converts failures to one line and an exit code.
#include <exception>
#include <new>

#include "berth/error.hpp"

#include "tool/child_process.hpp"
#include "tool/command.hpp"
#include "tool/output.hpp"

namespace berth::tool {
namespace {

ExitCode parse_and_run(int argc, const char* const* argv) {
  CommandLine berth;
  add_devices_command(berth);
  add_replay_command(berth);
  add_copy_command(berth);
  add_tune_command(berth);
  add_stats_command(berth);
  add_demo_command(berth);
  add_config_command(berth);
  add_sim_command(berth);
  add_help_commands(berth);
  return berth.parse_and_run(argc, argv);
}

ExitCode run(int argc, const char* const* argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const OutputClosed&) {
    return ExitCode::ok;
  } catch (const UsageError& error) {
    print_error(error.what());
    return ExitCode::usage;
  } catch (const NoDeviceError& error) {
    print_error(error.what());
    return ExitCode::no_device;
  } catch (const Error& error) {  // before std::bad_alloc, which OutOfMemory is
    print_error(error.what());
    return ExitCode::failed;
  } catch (const std::bad_alloc&) {
    print_error("the host has no memory left for this");
    return ExitCode::failed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return ExitCode::failed;
  } catch (...) {
    print_error("a failure without a description");
    return ExitCode::failed;
  }
}

}  // namespace
}  // namespace berth::tool

int main(int argc, char** argv) {
  berth::tool::ignore_broken_pipe();  // print() throws OutputClosed
  return int(berth::tool::run(argc, argv));
}
