// Modules for multi-token prediction, without which a model can be trained and served.

#pragma once

#include "profiles/model.hpp"

namespace stagecraft {

/// How many it has, each a layer.
int prediction_modules(const Model& model);

/// The model with its own layers alone: those before and behind the modules are joined. The same
/// model if it has none.
Model without_prediction(const Model& model);

}  // namespace stagecraft
