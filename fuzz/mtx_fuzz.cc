// Any bytes as each text of a Matrix Market folder: an error of the right kind, or entries that lie
// inside the matrix, the same in whatever order pieces are asked for.
#include <arrow/api.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/format/tenx/mtx_cells.h"
#include "cellfeed/format/tenx/mtx_entries.h"
#include "cellfeed/format/tenx/mtx_lists.h"
#include "cellfeed/format/tenx/mtx_text.h"
#include "cellfeed/io/memory_source.h"
#include "fuzz/target.h"

namespace {

using cellfeed::ErrorKind;
using cellfeed::format::Entries;
using cellfeed::format::EntryParts;
namespace tenx = cellfeed::format::tenx;

constexpr std::int64_t kMaxPieces = 3;
constexpr std::int64_t kMostLines = 5;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_matrix(const std::shared_ptr<const cellfeed::io::ByteSource>& source) {
  const tenx::MtxText text(source);
  tenx::MtxHeader header = text.header();
  header.rows_are_cells = header.n_entries % 2 != 0;
  const std::int64_t n = std::min(text.n_pieces(), kMaxPieces);
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    const std::int64_t piece = i < n ? i : 2 * n - 1 - i;  // and back
    const tenx::MtxLines lines = text.lines(piece);
    Entries entries;
    tenx::read_entries("a", header, lines, {}, EntryParts::kAll, entries);
    require(entries.n == std::min(tenx::MtxText::kPieceLines,
                                  header.n_entries - piece * tenx::MtxText::kPieceLines));
    for (std::int64_t k = 0; k < entries.n; ++k) {
      require(entries.rows.data()[k] < header.n_cells());
      require(entries.columns.data()[k] >= 0 && entries.columns.data()[k] < header.n_features());
    }
  }
}

void read_genes(const tenx::GeneList& genes) {
  const auto n = static_cast<std::size_t>(genes.length.n);
  require(genes.length.has_more || genes.names.size() == n);
  require(genes.ids.empty() || genes.ids.size() == genes.names.size());
}

template <typename Read>
void expect_read_or_refused(const Read& read) {
  try {
    read();
  } catch (const cellfeed::Error& error) {
    require(error.kind() == ErrorKind::kCorruptData || error.kind() == ErrorKind::kUnsupported);
  }
}

std::vector<std::uint8_t> gzip(const std::vector<std::uint8_t>& text) {
  z_stream stream{};
  require(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::vector<std::uint8_t> out(deflateBound(&stream, text.size()) + 32);
  stream.next_in = const_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::shared_ptr<const cellfeed::io::ByteSource> source =
      cellfeed::io::make_memory_source("a", {bytes, bytes + size});
  expect_read_or_refused([&] { read_matrix(source); });
  for (const bool has_types : {false, true})
    expect_read_or_refused([&] { read_genes(tenx::read_features(source, has_types, kMostLines)); });
  expect_read_or_refused([&] { read_genes(tenx::read_gene_table(source, kMostLines)); });
  for (const bool has_headings : {false, true})
    expect_read_or_refused([&] {
      const tenx::MtxCells cells(source, has_headings, kMostLines);
      const std::int64_t n = cells.length().n;
      require(cells.read(0, n)->ToString() == cells.read(0, n)->ToString());
      require(cells.read(n, n)->num_rows() == 0);
    });
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::string many = "%%MatrixMarket matrix coordinate integer general\n900 90 200\n";
  for (int i = 0; i < 200; ++i)
    many += fmt::format("{} {} {}\n", i * 37 % 900 + 1, i % 90 + 1, i * i);
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const std::string& text : {
           std::string("%%MatrixMarket matrix coordinate integer general\n%{\"a\": 1}\n3 2 3\n"
                       "1 1 5\n3 2 -7\n2 2 2147483647\n"),
           std::string("%%MatrixMarket matrix coordinate real general\r\n3 2 3\r\n1 1 1.5e-3\r\n"
                       "\r\n3 2 nan\r\n2 1 +inf"),
           std::string("%%MatrixMarket matrix coordinate pattern general\n3 2 2\n1 1\n3 2\n"),
           many,
           std::string("a\tA\tGene Expression\nb\t\"B \"\"b\"\"\"\tGene Expression\nc\tC\tX\n"),
           std::string("\xEF\xBB\xBFx-1\ny-1\n\n"),
           std::string("gene_id,gene_name,genome\na,A,hg38\nb,\"B, \"\"b\"\"\",hg38\nc,,mm10\n"),
           std::string(
               "bc_wells,sample,tscp_count,part,is_good\n1_1,a,3,,True\n1_2,,4,1e3,False\n"),
       }) {
    seeds.emplace_back(text.begin(), text.end());
    seeds.push_back(gzip(seeds.back()));
  }
  return seeds;
}
