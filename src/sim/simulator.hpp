// SPDX-License-Identifier: Apache-2.0
// The public Simulator, for code that also uses the simulated functions and the parsed
// configuration.
#pragma once

#include "berth/sim.hpp"

#include "sim/config.hpp"
#include "sim/functions.hpp"
