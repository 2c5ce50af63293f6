#include "cellfeed/convert/result_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/number_text.h"

namespace cellfeed::convert {

std::string removed_uploads_text(std::int64_t n_uploads) {
  if (n_uploads == 0) return {};
  return fmt::format("{} unfinished uploads of writers that were killed were removed\n", n_uploads);
}

std::string result_json(const std::string& output_dir, const ConvertResult& r) {
  const nlohmann::ordered_json json = {
      {"output_dir", output_dir},    {"n_cells", r.n_cells},
      {"n_genes", r.n_genes},        {"nnz", r.nnz},
      {"n_shards", r.n_shards},      {"n_shards_resumed", r.n_shards_resumed},
      {"not_finite", r.not_finite},  {"n_genes_left_out", r.n_genes_left_out},
      {"left_out", r.left_out_text}, {"n_uploads_removed", r.n_uploads_removed},
      {"warnings", r.warnings},      {"bytes", r.bytes},
      {"seconds", r.seconds},        {"cells_per_second", r.cells_per_second}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string result_text(const std::string& output_dir, const ConvertResult& r) {
  std::string text =
      fmt::format("{} cells x {} genes in {} shards, {}: {}\n", grouped(r.n_cells),
                  grouped(r.n_genes), r.n_shards, format_byte_size(r.bytes), output_dir);
  if (r.n_shards_resumed == r.n_shards)
    text += "nothing was left to do: all shards were there\n";
  else if (r.n_shards_resumed > 0)
    text += fmt::format("{} shards were there from an earlier run\n", r.n_shards_resumed);
  if (r.not_finite > 0)
    text += fmt::format("{} values are NaN or infinite, and were stored as they are\n",
                        grouped(r.not_finite));
  if (r.n_genes_left_out > 0)
    text += fmt::format(
        "up to {} genes of an input are left out, and each cell's total over all of them is kept; "
        "--join outer keeps all genes\n",
        grouped(r.n_genes_left_out));
  if (!r.left_out_text.empty()) text += r.left_out_text + "\n";
  text += removed_uploads_text(r.n_uploads_removed);
  for (const std::string& warning : r.warnings) text += warning + "\n";
  if (r.n_shards_resumed < r.n_shards)
    text += fmt::format("{} ({} cells/s)\n", duration_text(r.seconds),
                        grouped(static_cast<std::int64_t>(r.cells_per_second)));
  return text;
}

std::string result_json(const std::string& dir, const AppendResult& r) {
  const nlohmann::ordered_json json = {{"shards", dir},
                                       {"n_cells_added", r.n_cells_added},
                                       {"n_shards_added", r.n_shards_added},
                                       {"n_cells", r.shards.n_cells},
                                       {"n_genes", r.shards.n_genes},
                                       {"nnz", r.shards.nnz},
                                       {"n_shards", r.shards.n_shards},
                                       {"n_shards_resumed", r.shards.n_shards_resumed},
                                       {"not_finite", r.shards.not_finite},
                                       {"n_missing_genes", r.n_missing_genes},
                                       {"missing_genes", r.missing_genes_text},
                                       {"n_genes_left_out", r.shards.n_genes_left_out},
                                       {"left_out", r.shards.left_out_text},
                                       {"warnings", r.warnings},
                                       {"n_uploads_removed", r.shards.n_uploads_removed},
                                       {"bytes", r.shards.bytes},
                                       {"seconds", r.shards.seconds},
                                       {"cells_per_second", r.shards.cells_per_second}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string result_text(const std::string& dir, const AppendResult& r) {
  std::string text = fmt::format(
      "{} cells appended in {} shards, behind the {} that were there: {}\n",
      grouped(r.n_cells_added), r.n_shards_added, grouped(r.shards.n_cells - r.n_cells_added), dir);
  if (r.shards.n_shards_resumed == r.n_shards_added)
    text += "nothing was left to do: all shards were there\n";
  else if (r.shards.n_shards_resumed > 0)
    text += fmt::format("{} shards were there from an earlier run\n", r.shards.n_shards_resumed);
  if (r.shards.n_genes_left_out > 0)
    text += fmt::format(
        "up to {} genes of an input are left out, and each cell's total over all of them is kept\n",
        grouped(r.shards.n_genes_left_out));
  for (const std::string& said : {r.missing_genes_text, r.shards.left_out_text})
    if (!said.empty()) text += said + "\n";
  text += removed_uploads_text(r.shards.n_uploads_removed);
  for (const std::string& warning : r.warnings) text += warning + "\n";
  if (r.shards.n_shards_resumed < r.n_shards_added)
    text += fmt::format("{} ({} cells/s)\n", duration_text(r.shards.seconds),
                        grouped(static_cast<std::int64_t>(r.shards.cells_per_second)));
  return text;
}

std::string result_json(const std::string& output, const PreprocessResult& r) {
  const nlohmann::ordered_json json = {{"output", output},
                                       {"n_cells", r.n_cells},
                                       {"n_genes", r.n_genes},
                                       {"n_cells_before", r.n_cells_before},
                                       {"n_genes_before", r.n_genes_before},
                                       {"nnz", r.nnz},
                                       {"n_shards", r.n_shards},
                                       {"processing", nlohmann::json::parse(r.processing_json)},
                                       {"left_out", r.left_out_text},
                                       {"n_uploads_removed", r.n_uploads_removed},
                                       {"warnings", r.warnings},
                                       {"bytes", r.bytes},
                                       {"seconds", r.seconds},
                                       {"cells_per_second", r.cells_per_second}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string result_text(const std::string& output, const PreprocessResult& r) {
  std::string text =
      fmt::format("{} of {} cells x {} of {} genes, {}: {}\nrecorded: {}\n", grouped(r.n_cells),
                  grouped(r.n_cells_before), grouped(r.n_genes), grouped(r.n_genes_before),
                  format_byte_size(r.bytes), output, r.processing_json);
  if (!r.left_out_text.empty()) text += r.left_out_text + "\n";
  text += removed_uploads_text(r.n_uploads_removed);
  for (const std::string& warning : r.warnings) text += warning + "\n";
  return text + fmt::format("{} ({} cells/s)\n", duration_text(r.seconds),
                            grouped(static_cast<std::int64_t>(r.cells_per_second)));
}

}  // namespace cellfeed::convert
