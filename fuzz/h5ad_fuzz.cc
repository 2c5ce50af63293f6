// .h5ad files with changed bytes, their checksums mended or not: whatever a file holds is read, as
// values that fit together and are the same when they are read again, or refused with an error of
// the right kind. An input is a list of changes to one of the files of corpus/h5ad, which
// corpus/make_h5ad.py wrote with anndata and h5py.
#include <arrow/api.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/matrix_list.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/testing/temp_dir.h"
#include "fuzz/file_bytes.h"
#include "fuzz/hdf5_changes.h"
#include "fuzz/target.h"

namespace {

namespace format = cellfeed::format;
namespace fuzz = cellfeed::fuzz;
using cellfeed::Error;
using cellfeed::ErrorKind;
using fuzz::SoundFile;
using Stores = std::vector<std::unique_ptr<format::RowStore>>;

// More are not read of a file that says it has them.
constexpr std::int64_t kMaxRows = 20;
constexpr std::int64_t kMaxPieces = 4;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  std::abort();
}

const std::vector<SoundFile>& sound_files() {
  static const std::vector<SoundFile> files = [] {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(CELLFEED_FUZZ_CORPUS "/h5ad"))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    require(!paths.empty(), "there is a corpus");
    std::vector<SoundFile> made;
    for (const std::string& path : paths) {
      const fuzz::Bytes read = fuzz::read_bytes(path);
      std::vector<std::byte> bytes(read.size());
      std::memcpy(bytes.data(), read.data(), read.size());
      made.push_back(fuzz::sound_file(std::move(bytes)));
    }
    return made;
  }();
  return files;
}

// What is in a file, errors included, as one text.
class Reading {
 public:
  std::string read(const std::string& path, std::int64_t cache_bytes) {
    path_ = path;
    options_.cache_bytes = cache_bytes;
    options_.row_maker = [&](std::unique_ptr<format::EntryStore> store,
                             const format::OpenOptions&) {
      read_entries(*store);
      read_cells(*store);
      return Stores();
    };
    attempt([&] {
      for (const auto& matrix : format::list_matrices(path)) layers_.push_back(matrix.name);
    });
    layers_.push_back("X");
    layers_.push_back(format::kNoLayer);
    for (const std::string& layer : layers_) attempt([&] { read_layer(layer); });
    return std::move(text_);
  }

 private:
  template <typename Call>
  void attempt(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      require(error.kind() != ErrorKind::kInternal && error.kind() != ErrorKind::kIo, error.what());
      text_ += "error " + std::string(cellfeed::error_kind_name(error.kind())) + "\n";
    }
  }

  template <typename T>
  void note(const T* values, std::int64_t n) {
    text_.append(reinterpret_cast<const char*>(values), static_cast<std::size_t>(n) * sizeof(T));
  }

  void read_layer(const std::string& layer) {
    text_ += layer + "\n";
    options_.layer = layer;
    for (const auto& store : format::open_stores(path_, options_)) {
      attempt([&] { read_rows(*store); });
      read_cells(*store);
    }
  }

  void read_rows(const format::RowStore& store) {
    const std::int64_t n_rows = store.info().n_rows;
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < std::min(kMaxRows, n_rows); ++row)
      rows.push_back(row % 2 == 0 ? row : n_rows - row);
    const auto fetched = format::fetch_rows(store, rows);
    std::vector<std::int64_t> sizes(rows.size()), place{0};
    fetched->sizes(sizes);
    for (const std::int64_t size : sizes) place.push_back(place.back() + size);
    std::vector<std::int32_t> indices(static_cast<std::size_t>(place.back()) + 16),
        counts(rows.size());
    std::vector<double> values(indices.size());
    fetched->decode(0, std::ssize(rows),
                    {.place = place.data(),
                     .indices = indices.data(),
                     .values = values.data(),
                     .dtype = cellfeed::DType::kF64,
                     .counts = counts.data()});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      require(counts[i] >= 0 && counts[i] <= sizes[i], "rows are as long as they are sized");
      const std::int32_t* row = indices.data() + place[i];
      for (std::int32_t k = 0; k < counts[i]; ++k)
        require(row[k] > (k == 0 ? -1 : row[k - 1]) && row[k] < store.info().n_cols,
                "columns ascend inside of the matrix");
      note(row, counts[i]);
      note(values.data() + place[i], counts[i]);
    }
  }

  void read_entries(const format::EntryStore& store) {
    for (std::int64_t piece = 0; piece < std::min(kMaxPieces, store.n_pieces()); ++piece)
      attempt([&] {
        format::Entries entries;
        store.read_piece(piece, format::EntryParts::kAll, entries);
        for (std::int64_t i = 0; i < entries.n; ++i) {
          require(entries.rows.data()[i] < store.info().n_rows, "entries have a row");
          require(entries.columns.data()[i] >= 0 && entries.columns.data()[i] < store.info().n_cols,
                  "entries have a column");
        }
        note(entries.columns.data(), entries.n);
        note(entries.values.data(), std::ssize(entries.values.span()));
      });
  }

  // Genes, obs and var.
  void read_cells(const format::RowStore& store) {
    attempt([&] {
      for (const std::string& name : store.genes().names) text_ += name;
      text_ += store.processing().json;
    });
    attempt([&] { text_ += std::to_string(store.fingerprint()); });
    attempt([&] { note_table(*store.read_var(), std::ssize(store.genes().names)); });
    const std::int64_t n_rows = std::min(kMaxRows, store.info().n_rows);
    attempt([&] { note_table(*store.read_obs(0, n_rows), n_rows); });
    attempt([&] {
      for (const std::string& name : store.obs_names()) attempt([&] { read_column(store, name); });
    });
  }

  void note_table(const arrow::Table& table, std::int64_t n_rows) {
    require(table.num_rows() == n_rows, "tables are as long as was asked for");
    const auto status = table.ValidateFull();
    require(status.ok(), status.ToString());
    text_ += table.ToString();
  }

  void read_column(const format::RowStore& store, const std::string& name) {
    const auto column = store.obs_column(name);
    require(column.length == store.info().n_rows, "a column has a value of each row");
    const auto width = static_cast<std::int64_t>(cellfeed::dtype_bytes(column.dtype));
    note(static_cast<const char*>(column.values), column.length * width);
    cellfeed::matrix::require_intact(column);
    if (!column.is_categorical) return;
    const auto n_categories = std::ssize(cellfeed::matrix::category_texts(column));
    cellfeed::dispatch_dtype(column.dtype, [&](auto zero) {
      const auto* codes = static_cast<const decltype(zero)*>(column.values);
      for (std::int64_t i = 0; i < column.length; ++i)
        require(static_cast<std::int64_t>(codes[i]) >= -1 &&
                    static_cast<std::int64_t>(codes[i]) < n_categories,
                "codes are of categories");
    });
  }

  std::string path_;
  format::OpenOptions options_;
  std::vector<std::string> layers_;
  std::string text_;
};

std::string read(const std::string& path, std::int64_t cache_bytes) {
  return Reading().read(path, cache_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const cellfeed::testing::TempDir dir;
  const std::string path = dir.file("a.h5ad");
  const SoundFile& sound = sound_files()[data[0] % sound_files().size()];
  const auto bytes = fuzz::changed(sound, {data + 2, size - 2}, data[1] % 4 != 0);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  fuzz::write_bytes(path, fuzz::Bytes(first, first + bytes.size()));
  const fuzz::TimeLimit limit;
  const std::string cached = read(path, 1 << 20);
  require(cached == read(path, 0), "the same without a cache");
  if (size == 2) require(cached.find("error") == std::string::npos, "sound files are read");
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  std::mt19937 random(1);
  for (std::size_t file = 0; file < sound_files().size(); ++file) {
    seeds.push_back({static_cast<std::uint8_t>(file), 1});
    for (int n = 0; n < 200; ++n)
      seeds.push_back(random_changes(sound_files()[file], file, random));
  }
  return seeds;
}
