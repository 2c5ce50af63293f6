#include "cellfeed/format/shard/dense_file_writer.h"

#include <xxhash.h>

#include <filesystem>
#include <span>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/dense_file_layout.h"
#include "cellfeed/io/atomic_file.h"

namespace cellfeed::format::shard {

struct DenseFileWriter::State {
  State(const std::string& path, std::int64_t genes)
      : file(path, io::OnExisting::kReplace), hash(XXH3_createState()), n_genes(genes) {
    XXH3_64bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  io::AtomicFile file;
  XXH3_state_t* hash;  // of the data
  std::int64_t n_genes;
  std::int64_t n_cells = 0;
  std::int64_t nnz = 0;
};

DenseFileWriter::DenseFileWriter(const std::string& path, std::int64_t n_genes)
    : state_(std::make_unique<State>(path, n_genes)) {
  const std::string header = npy_header(0, n_genes);
  state_->file.append(std::as_bytes(std::span<const char>(header)));
}
DenseFileWriter::~DenseFileWriter() = default;
DenseFileWriter::DenseFileWriter(DenseFileWriter&&) noexcept = default;

std::int64_t DenseFileWriter::n_cells() const { return state_->n_cells; }
std::int64_t DenseFileWriter::nnz() const { return state_->nnz; }

void DenseFileWriter::append(const EncodedRows& rows) {
  State& s = *state_;
  const auto row_bytes = static_cast<std::size_t>(s.n_genes) * sizeof(float);
  if (rows.bytes.size() != row_bytes * rows.lengths.size())
    throw_invalid("EncodedRows are not dense rows of {} genes", s.n_genes);
  s.file.append(std::as_bytes(std::span<const std::uint8_t>(rows.bytes)));
  XXH3_64bits_update(s.hash, rows.bytes.data(), rows.bytes.size());
  s.n_cells += rows.n_rows();
  for (const auto n : rows.nnz) s.nnz += n;
}

FileEntry DenseFileWriter::finish() {
  State& s = *state_;
  const std::string header = npy_header(s.n_cells, s.n_genes);
  s.file.overwrite(0, std::as_bytes(std::span<const char>(header)));
  s.file.commit();
  return {.name = std::filesystem::path(s.file.path()).filename().string(),
          .bytes = s.file.size(),
          .checksum = XXH3_64bits_digest(s.hash)};
}

}  // namespace cellfeed::format::shard
