// CscStore: a CSC matrix, obs and var of one file.
#include "cellfeed/format/anndata/csc_store.h"

#include <array>
#include <utility>

#include "cellfeed/format/anndata/annotations.h"
#include "cellfeed/format/anndata/csc_matrix.h"
#include "cellfeed/format/anndata/layers.h"
#include "cellfeed/format/anndata/sub_tree.h"

namespace cellfeed::format::anndata {
namespace {

std::vector<std::string> files_of(const StoredTree& file, const std::string& layer) {
  const std::array<std::string, 3> arrays{layer + "/data", layer + "/indices", layer + "/indptr"};
  return file.files_of(arrays);
}

class CscStore final : public EntryStore {
 public:
  CscStore(std::unique_ptr<const StoredTree> file, const std::string& format,
           const std::string& layer)
      : file_(std::move(file)),
        matrix_(*file_, layer),
        files_(files_of(*file_, layer)),
        annotations_(*file_, layer, matrix_.n_rows(), matrix_.n_cols()),
        info_{.path = file_->path(),
              .format = format,
              .layer = layer_name(layer),
              .n_rows = matrix_.n_rows(),
              .n_cols = matrix_.n_cols(),
              .nnz = matrix_.nnz(),
              .value_dtype = matrix_.data().dtype(),
              .compression = matrix_.data().compression(),
              .bytes_on_disk = file_->size(),
              .root = file_->root(),
              .choice = file_->root()} {}

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return annotations_.genes(); }
  void release_pages() const override { file_->release_pages(); }
  std::vector<std::string> obs_names() const override { return annotations_.obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return annotations_.obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return annotations_.read_obs(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return annotations_.read_var(); }
  Processing processing() const override { return annotations_.processing(); }
  std::uint64_t fingerprint() const override { return annotations_.fingerprint(); }

  std::string storage() const override { return "by columns (CSC)"; }
  OpenOptions choice() const override {
    OpenOptions options = EntryStore::choice();
    options.choice.modality = modality_at(file_->root());
    return options;
  }
  std::vector<std::string> files() const override { return files_; }
  std::int64_t n_pieces() const override { return matrix_.n_pieces(); }
  std::int64_t piece_bytes() const override { return matrix_.piece_bytes(); }
  void read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const override {
    matrix_.read_piece(piece, parts, entries);
  }

 private:
  std::unique_ptr<const StoredTree> file_;
  CscMatrix matrix_;
  const std::vector<std::string> files_;  // that the matrix is read from
  Annotations annotations_;
  StoreInfo info_;
};

}  // namespace

bool is_csc(const StoredTree& file, const std::string& layer) {
  const auto node = file.find(layer);
  return node && node->kind() == NodeKind::kGroup && sparse_encoding(*node) == "csc_matrix";
}

std::unique_ptr<EntryStore> open_csc(std::unique_ptr<const StoredTree> file,
                                     const std::string& format, const std::string& layer) {
  return std::make_unique<CscStore>(std::move(file), format, layer);
}

}  // namespace cellfeed::format::anndata
