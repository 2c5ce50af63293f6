#include "cellfeed/convert/inputs/carried_annotations.h"

#include <arrow/api.h>

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/sub_tree.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5ad/annotations_file.h"
#include "cellfeed/format/processing.h"
#include "cellfeed/format/shard/annotations.h"
#include "cellfeed/format/shard/shard_directory.h"
#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/format/zarr/zarr_store.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

// The one input; empty where there are several, or where it lies in memory.
std::string one_input(const std::vector<std::string>& inputs) {
  return inputs.size() == 1 && io::exists(inputs.front()) ? inputs.front() : "";
}

bool has_members(const format::StoredTree& tree, const std::string& path) {
  const auto node = tree.find(path);
  return node && (node->kind() != format::NodeKind::kGroup || !node->member_names().empty());
}

// What is no array, a data frame or a sparse matrix, has the axis of the file as well, and copying
// says why it cannot read another.
bool has_rows(const format::StoredNode& node, std::int64_t n) {
  if (node.kind() != format::NodeKind::kArray && node.kind() != format::NodeKind::kTable)
    return node.kind() == format::NodeKind::kGroup;
  try {
    const auto shape = node.shape();
    return !shape.empty() && shape[0] == static_cast<std::uint64_t>(n);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return true;
  }
}

}  // namespace

CarriedAnnotations::CarriedAnnotations(const InputCells& input, const Sources& sources,
                                       bool restores_gene_order)
    : input_(one_input(input.all_paths())), has_genes_of_input_(input.has_genes_of_files) {
  if (input_.empty()) return;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s)
    has_genes_of_input_ &= sources.has_joined_axis(s);
  std::string path = input_;
  const std::string root = sources.store(0).info().root;
  if (shard::is_shard_dir(input_)) {
    const shard::ShardDirectory directory(input_, {.reads_genes = false});
    path = shard::checked_annotations(directory);
    has_genes_of_input_ &=
        restores_gene_order || directory.manifest().gene_order != shard::GeneOrder::kMean;
    if (path.empty()) return;
  } else if (sources.store(0).info().format == "zarr") {
    auto tree = format::zarr::open_tree(input_);
    from_ = &tree->hierarchy();
    tree_ = std::move(tree);
  } else if (!input_.ends_with(".h5ad") && root.empty()) {
    return;
  }
  if (!tree_) {
    auto file = std::make_unique<format::H5File>(path, false);
    from_ = &file->hdf5();
    tree_ = std::move(file);
  }
  if (!root.empty()) tree_ = std::make_unique<format::anndata::SubTree>(std::move(tree_), root);
  groups_.root = root;
  find_groups(sources);
  if (groups_.paths.empty()) tree_.reset();
}

void CarriedAnnotations::find_groups(const Sources& sources) {
  const std::string& layer = sources.store(0).info().layer;
  groups_.skipped = {format::kProcessingPath};
  skip_old_categories(sources);
  // What it says is of X.
  if (layer != "X") groups_.skipped.push_back("uns/log1p");
  if (has_members(*tree_, "uns")) groups_.paths.push_back("uns");
  // The genes of raw are others, and whoever asked for it knows.
  if (!layer.starts_with("raw") && has_members(*tree_, "varm")) find_varm(sources);
}

// Old files keep the categories of columns in uns, and what is written has them with the columns.
void CarriedAnnotations::skip_old_categories(const Sources& sources) {
  constexpr std::string_view kEnd = "_categories";
  const auto uns = tree_->find("uns");
  if (!uns || uns->kind() != format::NodeKind::kGroup) return;
  std::shared_ptr<arrow::Schema> obs, var;
  for (const std::string& name : uns->member_names()) {
    if (!name.ends_with(kEnd)) continue;
    if (!obs) obs = sources.obs().schema();
    if (!var) var = sources.read_var()->schema();
    const std::string column = name.substr(0, name.size() - kEnd.size());
    if (obs->GetFieldIndex(column) >= 0 || var->GetFieldIndex(column) >= 0)
      groups_.skipped.push_back("uns/" + name);
  }
}

void CarriedAnnotations::find_varm(const Sources& sources) {
  const auto varm = tree_->find("varm");
  if (varm->kind() != format::NodeKind::kGroup) {
    left_out_.push_back("varm: one table, as anndata 0.6 and older write it");
    return;
  }
  if (!has_genes_of_input_) {
    left_out_.push_back("varm: other genes are written, or in another order");
    return;
  }
  for (const std::string& name : varm->member_names()) {
    const auto member = tree_->find("varm/" + name);
    if (member && has_rows(*member, sources.genes().size())) continue;
    groups_.skipped.push_back("varm/" + name);
    left_out_.push_back("varm/" + name + ": no array of a row for each gene that is written");
  }
  groups_.paths.push_back("varm");
}

std::optional<shard::FileEntry> CarriedAnnotations::write_to(const io::Directory& directory,
                                                             shard::Generation generation) {
  if (!tree_) return std::nullopt;
  const io::FileTarget target(directory, shard::annotations_name(generation));
  note_written(format::h5ad::write_annotations(target, from_, groups_));
  return shard::describe_annotations(directory, generation);
}

void CarriedAnnotations::write_to(H5adOutput& output) {
  if (tree_) note_written(output.carry(from_, groups_));
}

void CarriedAnnotations::note_written(const std::vector<std::string>& left_out) {
  tree_->require_unchanged();
  left_out_.insert(left_out_.end(), left_out.begin(), left_out.end());
}

std::string CarriedAnnotations::left_out_text() const {
  if (left_out_.empty()) return "";
  constexpr std::size_t kNamed = 5;
  std::string text = fmt::format("{}: not carried: ", input_);
  for (std::size_t i = 0; i < std::min(left_out_.size(), kNamed); ++i)
    text += (i > 0 ? "; " : "") + left_out_[i];
  if (left_out_.size() > kNamed) text += fmt::format("; and {} more", left_out_.size() - kNamed);
  return text;
}

void add_sentence(std::string& text, const std::string& sentence) {
  if (!text.empty() && !sentence.empty()) text += "\n";
  text += sentence;
}

}  // namespace cellfeed::convert
