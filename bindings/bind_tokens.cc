// What a loader of tokens is asked for, and the tokens of its batches.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "cellfeed/loader/token_output.h"
#include "tokens.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace cellfeed::bindings {
namespace {

using loader::GeneSelection;
using loader::TokenOutput;
using transform::TokenOptions;

TokenOptions::Order order_from_name(const std::string& name) {
  if (name == "rank") return TokenOptions::Order::kRank;
  if (name == "bins") return TokenOptions::Order::kBins;
  if (name == "values") return TokenOptions::Order::kValues;
  throw_invalid("tokens are made by \"rank\", \"bins\" or \"values\", not '{}'", name);
}

GeneSelection selection_from_name(const std::string& name) {
  if (name == "all") return GeneSelection::kAll;
  if (name == "most_expressed") return GeneSelection::kMostExpressed;
  if (name == "random_expressed") return GeneSelection::kRandomExpressed;
  throw_invalid(
      "gene_selection must be \"all\", \"most_expressed\" or \"random_expressed\", not '{}'", name);
}

std::shared_ptr<TokenOutput> make_output(const std::string& order, std::vector<std::string> genes,
                                         std::vector<std::int32_t> ids, std::vector<float> medians,
                                         std::int32_t max_length, bool has_class_token,
                                         std::int32_t n_bins, bool spreads_ties,
                                         bool truncates_at_random, const std::string& selection,
                                         std::int64_t n_genes, bool pads_to_max_length) {
  auto output = std::make_shared<TokenOutput>();
  output->tokenizer = {.order = order_from_name(order),
                       .genes = std::move(genes),
                       .ids = std::move(ids),
                       .medians = std::move(medians),
                       .max_length = max_length,
                       .has_class_token = has_class_token,
                       .n_bins = n_bins,
                       .spreads_ties = spreads_ties,
                       .truncation = truncates_at_random ? TokenOptions::Truncation::kRandom
                                                         : TokenOptions::Truncation::kSmallest};
  output->selection = selection_from_name(selection);
  output->n_genes = n_genes;
  output->pads_to_max_length = pads_to_max_length;
  return output;
}

std::shared_ptr<TokenOutput> with_masking(const TokenOutput& self, double fraction,
                                          bool predicts_genes, double mask_share,
                                          double random_share, float mask_value) {
  auto masked = std::make_shared<TokenOutput>(self);
  masked->masking = {.fraction = fraction,
                     .predicts_genes = predicts_genes,
                     .mask_share = mask_share,
                     .random_share = random_share,
                     .mask_value = mask_value};
  return masked;
}

template <typename T>
NumpyArray matrix_at(const PyTokens& self, std::size_t offset) {
  const matrix::TokenBlock& block = self.block();
  return as_array(block.at<T>(offset),
                  {static_cast<std::size_t>(block.n_rows), static_cast<std::size_t>(block.width)},
                  self.loaded);
}

// Where arrays begin in memory, by the names that they have here.
nb::typed<nb::dict, nb::str, nb::int_> offsets_of(const PyTokens& self) {
  const auto& layout = self.block().layout;
  nb::dict offsets;
  offsets["input_ids"] = layout.ids;
  offsets["values"] = layout.values;
  offsets["attention_mask"] = layout.mask;
  offsets["lengths"] = layout.lengths;
  offsets["labels"] = layout.labels;
  offsets["value_labels"] = layout.target_values;
  return offsets;
}

nb::object pinned_memory(const PyTokens& self) {
  const auto* pinned = self.loaded->pinned();
  const auto& memory = self.block().memory;
  if (pinned == nullptr || memory.handle() == nullptr) return nb::none();
  return nb::capsule(pinned->make_tensor(memory.handle(), memory.size()));
}

}  // namespace

void bind_tokens(nb::module_& module) {
  nb::class_<TokenOutput>(module, "TokenOutput")
      .def_static("make", &make_output, "order"_a, "genes"_a, "ids"_a, "medians"_a, "max_length"_a,
                  "has_class_token"_a, "n_bins"_a, "spreads_ties"_a, "truncates_at_random"_a,
                  "selection"_a, "n_genes"_a, "pads_to_max_length"_a)
      .def("with_masking", &with_masking, "fraction"_a, "predicts_genes"_a, "mask_share"_a,
           "random_share"_a, "mask_value"_a);
  nb::class_<PyTokens>(module, "Tokens")
      .def_prop_ro("input_ids",
                   [](const PyTokens& self) {
                     return matrix_at<std::int32_t>(self, self.block().layout.ids);
                   })
      .def_prop_ro(
          "values",
          [](const PyTokens& self) { return matrix_at<float>(self, self.block().layout.values); })
      .def_prop_ro(
          "attention_mask",
          [](const PyTokens& self) { return matrix_at<bool>(self, self.block().layout.mask); })
      .def_prop_ro("lengths",
                   [](const PyTokens& self) {
                     const auto& block = self.block();
                     return as_array(block.at<std::int32_t>(block.layout.lengths),
                                     {static_cast<std::size_t>(block.n_rows)}, self.loaded);
                   })
      .def_prop_ro("labels",
                   [](const PyTokens& self) -> std::optional<NumpyArray> {
                     if (!self.block().targets.has_labels) return std::nullopt;
                     return matrix_at<std::int64_t>(self, self.block().layout.labels);
                   })
      .def_prop_ro("value_labels",
                   [](const PyTokens& self) -> std::optional<NumpyArray> {
                     if (!self.block().targets.has_values) return std::nullopt;
                     return matrix_at<float>(self, self.block().layout.target_values);
                   })
      .def_prop_ro("memory",
                   [](const PyTokens& self) {
                     const auto& memory = self.block().memory;
                     return as_array(reinterpret_cast<const std::uint8_t*>(memory.data()),
                                     {memory.size()}, self.loaded);
                   })
      .def_prop_ro("offsets", &offsets_of)
      .def("pinned_memory", &pinned_memory);
}

}  // namespace cellfeed::bindings
