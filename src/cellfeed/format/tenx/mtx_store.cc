// MtxStore: the entries of a matrix, with the cells and genes of the files beside it.
#include "cellfeed/format/tenx/mtx_store.h"

#include <arrow/api.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/content_fingerprint.h"
#include "cellfeed/format/tenx/chosen_features.h"
#include "cellfeed/format/tenx/mtx_cells.h"
#include "cellfeed/format/tenx/mtx_entries.h"
#include "cellfeed/format/tenx/mtx_files.h"
#include "cellfeed/format/tenx/mtx_lists.h"
#include "cellfeed/format/tenx/mtx_text.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format::tenx {
namespace {

SourcePtr open_source(const std::string& path) {
  return io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
}

// Lists are read up to a line more than either axis has.
std::int64_t longest_list(const MtxHeader& header) {
  return std::max(header.n_rows, header.n_cols) + 1;
}

class MtxStore final : public EntryStore {
 public:
  MtxStore(const std::string& path, const OpenOptions& options);

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return genes_; }
  std::vector<std::string> obs_names() const override {
    return {cells_->names().begin() + 1, cells_->names().end()};
  }
  matrix::FixedColumn obs_column(const std::string& name) const override;
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override;
  std::shared_ptr<arrow::Table> read_var() const override { return var_; }
  std::uint64_t fingerprint() const override;

  std::string storage() const override { return "as a list of entries (Matrix Market)"; }
  OpenOptions choice() const override { return choice_; }
  std::vector<std::string> files() const override { return files_.all(); }
  std::int64_t n_entries() const override { return header_.n_entries; }
  std::int64_t n_pieces() const override { return text_.n_pieces(); }
  std::int64_t piece_bytes() const override;
  void read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const override {
    read_entries(files_.matrix, header_, text_.lines(piece), features_->columns(), parts, entries);
  }

 private:
  GeneList read_genes() const;
  void choose_genes(const std::string& path, GeneList list);
  void describe(const std::string& path);

  const MtxFiles files_;
  const MtxText text_;
  MtxHeader header_;  // with the orientation, once both lists were read
  OpenOptions choice_;
  std::optional<ChosenFeatures> features_;
  std::optional<MtxCells> cells_;
  StoreInfo info_;
  matrix::GeneAxis genes_;
  std::shared_ptr<arrow::Table> var_;
  mutable std::atomic<std::uint64_t> fingerprint_{0};  // 0: not asked for yet
};

MtxStore::MtxStore(const std::string& path, const OpenOptions& options)
    : files_(find_mtx_files(path)), text_(open_source(files_.matrix)), header_(text_.header()) {
  choice_.layer = options.layer;
  choice_.choice.feature_type = options.choice.feature_type;
  choice_.choice.transpose = options.choice.transpose;
  GeneList list = read_genes();
  cells_.emplace(open_source(files_.cells), files_.has_headings, longest_list(header_));
  orient(header_, files_.matrix, files_.has_cells_first, options.choice.transpose, cells_->length(),
         list.length);
  choose_genes(path, std::move(list));
  describe(path);
}

GeneList MtxStore::read_genes() const {
  const SourcePtr source = open_source(files_.genes);
  GeneList list = files_.has_headings
                      ? read_gene_table(source, longest_list(header_))
                      : read_features(source, files_.has_types, longest_list(header_));
  if (!files_.gene_names.empty()) read_gene_names(open_source(files_.gene_names), list);
  return list;
}

void MtxStore::choose_genes(const std::string& path, GeneList list) {
  features_.emplace(path, header_.n_features());
  if (list.types.empty() && header_.n_features() > 0)
    features_->require_gene_expression(choice_.choice.feature_type, "features without types");
  features_->keep_type(list.types, choice_.choice.feature_type);
  genes_.names = features_->kept(std::move(list.names));
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  const auto add = [&](const char* name, const std::vector<std::string>& texts) {
    arrow::StringBuilder builder;
    check_arrow(builder.AppendValues(texts));
    std::shared_ptr<arrow::Array> array;
    check_arrow(builder.Finish(&array));
    fields.push_back(arrow::field(name, arrow::utf8()));
    columns.push_back(std::move(array));
  };
  add("_index", genes_.names);
  for (const auto& [name, texts] :
       {std::pair{"gene_ids", &list.ids}, std::pair{"feature_types", &list.types},
        std::pair{"genome", &list.genomes}})
    if (!texts->empty()) add(name, features_->kept(std::move(*texts)));
  var_ = arrow::Table::Make(arrow::schema(std::move(fields)), columns, features_->n_kept());
}

void MtxStore::describe(const std::string& path) {
  info_.path = path;
  info_.format = std::string("mtx");
  info_.layer = choice_.layer;
  // The same bytes under other names may be read the other way round.
  if (header_.rows_are_cells) info_.choice = "cells x genes";
  info_.n_rows = header_.n_cells();
  info_.n_cols = features_->n_kept();
  info_.nnz = features_->columns().empty() || n_entries() == 0 ? n_entries() : -1;
  info_.value_dtype = value_dtype(header_.field);
  const SourcePtr matrix = open_source(files_.matrix);
  info_.compression = std::string(io::is_gzip(*matrix) ? "gzip" : "none");
  for (const std::string& file : files()) info_.bytes_on_disk += open_source(file)->size();
  info_.left_out = features_->left_out();
}

// Of the longest lines there may be.
std::int64_t MtxStore::piece_bytes() const {
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(info_.value_dtype));
  const auto entry_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t) + sizeof(std::int32_t));
  return std::min(MtxText::kPieceLines, n_entries()) *
         (MtxText::kMaxEntryBytes + entry_bytes + value_bytes);
}

matrix::FixedColumn MtxStore::obs_column(const std::string& name) const {
  if (std::ranges::find(cells_->names(), name) == cells_->names().end())
    throw_error(ErrorKind::kNoSuchKey, info_.path, "no obs column '{}'{}", name,
                suggestion(name, obs_names()));
  return matrix::make_fixed_column(name, arrow::ChunkedArray(cells_->read(name)));
}

std::shared_ptr<arrow::Table> MtxStore::read_obs(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > info_.n_rows)
    throw_error(ErrorKind::kOutOfRange, info_.path, "obs rows out of range: [{}, {}), rows {}",
                begin, end, info_.n_rows);
  return cells_->read(begin, end);
}

// Threads that ask at once find the same number.
std::uint64_t MtxStore::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  return fingerprint_ = content_fingerprint(files(), choice_.choice.feature_type + info_.choice);
}

}  // namespace

std::unique_ptr<EntryStore> open_mtx(const std::string& path, const OpenOptions& options) {
  if (options.layer != "X")
    throw_error(ErrorKind::kNoSuchKey, path,
                "no layer '{}': a Matrix Market file has one matrix, named X", options.layer);
  return std::make_unique<MtxStore>(path, options);
}

}  // namespace cellfeed::format::tenx
