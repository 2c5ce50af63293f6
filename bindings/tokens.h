// The tokens of a loaded batch, as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "cellfeed/base/error.h"
#include "cellfeed/loader/recycler.h"

namespace cellfeed::bindings {

struct PyTokens {
  std::shared_ptr<loader::LoadedBatch> loaded;

  const matrix::TokenBlock& block() const {
    if (const auto* tokens = std::get_if<matrix::TokenBlock>(&loaded->batch().x)) return *tokens;
    throw Error(ErrorKind::kInvalidArgument, "this batch holds a matrix, and no tokens");
  }
};

void bind_tokens(nanobind::module_& module);

}  // namespace cellfeed::bindings
