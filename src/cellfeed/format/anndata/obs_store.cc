#include "cellfeed/format/anndata/obs_store.h"

#include <utility>

#include "cellfeed/format/anndata/annotations.h"
#include "cellfeed/format/cells_alone.h"

namespace cellfeed::format::anndata {
namespace {

class ObsStore final : public CellsAlone {
 public:
  ObsStore(std::unique_ptr<const StoredTree> file, const std::string& format)
      : file_(std::move(file)), annotations_(*file_) {
    StoreInfo whole;
    whole.path = file_->path();
    whole.format = format;
    whole.root = file_->root();
    whole.n_rows = annotations_.n_rows();
    whole.bytes_on_disk = file_->size();
    describe(whole);
  }
  void release_pages() const override { file_->release_pages(); }
  std::vector<std::string> obs_names() const override { return annotations_.obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return annotations_.obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return annotations_.read_obs(begin, end);
  }
  std::uint64_t fingerprint() const override { return annotations_.fingerprint(); }

 private:
  const std::unique_ptr<const StoredTree> file_;
  const Annotations annotations_;
};

}  // namespace

std::unique_ptr<RowStore> open_obs(std::unique_ptr<const StoredTree> file,
                                   const std::string& format) {
  return std::make_unique<ObsStore>(std::move(file), format);
}

}  // namespace cellfeed::format::anndata
