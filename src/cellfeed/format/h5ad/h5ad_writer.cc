// H5adWriter: the matrix, obs and var, each growing at its own pace.
#include "cellfeed/format/h5ad/h5ad_writer.h"

#include <arrow/api.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/column_reader.h"
#include "cellfeed/format/column_values.h"
#include "cellfeed/format/h5ad/column_writer.h"
#include "cellfeed/format/h5ad/group_copy.h"
#include "cellfeed/format/h5ad/hdf5_output.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/format/h5ad/matrix_writers.h"
#include "cellfeed/format/processing.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::int64_t kColumnChunkElements = 4096;
constexpr std::int64_t kPieceRows = 65536;  // converted or named at once

}  // namespace

// obs or var being written.
class H5adWriter::FrameWriter {
 public:
  FrameWriter(const WriteTarget& target, std::string name)
      : target_(target), name_(std::move(name)) {}

  std::int64_t n_rows() const { return n_rows_; }
  bool has_columns() const { return !writers_.empty(); }

  void append(const arrow::Table& table) {
    if (writers_.empty()) open_columns(*table.schema());
    check_columns(*table.schema());
    for (int c = 0; c < table.num_columns(); ++c)
      for (const auto& chunk : table.column(c)->chunks())
        for (std::int64_t begin = 0; begin < chunk->length(); begin += kPieceRows)
          writers_[c]->append(*chunk->Slice(begin, kPieceRows));
    n_rows_ += table.num_rows();
  }

  // The next rows of a further column, which is the last one.
  void append_apart(const char* column, const arrow::Array& rows) {
    if (!apart_) {
      apart_ = make_column_writer(target_, name_ + "/" + column, *rows.type());
      columns_.push_back(column);
    }
    apart_->append(rows);
    n_apart_ += rows.length();
  }

  // Rows named by their position.
  void append_numbered(std::int64_t n) {
    for (std::int64_t begin = 0; begin == 0 || begin < n; begin += kPieceRows) {
      arrow::StringBuilder builder;
      for (std::int64_t i = begin; i < std::min(n, begin + kPieceRows); ++i)
        check_arrow(builder.Append(fmt::format("{}", i)));
      std::shared_ptr<arrow::Array> names;
      check_arrow(builder.Finish(&names));
      append(*arrow::Table::Make(arrow::schema({arrow::field("_index", arrow::utf8())}), {names}));
    }
  }

  void finish() {
    if (apart_ && n_apart_ != n_rows_)
      throw_invalid("column '{}' has {} of {} rows", columns_.back(), n_apart_, n_rows_);
    for (const auto& writer : writers_) writer->finish();
    if (apart_) apart_->finish();
    const Hdf5Session session;
    write_encoding(group_.get(), target_.path, "dataframe", "0.2.0");
    write_text_attribute(group_.get(), target_.path, "_index", index_name_);
    write_texts_attribute(group_.get(), target_.path, "column-order", columns_);
  }

 private:
  void open_columns(const arrow::Schema& schema) {
    if (schema.num_fields() == 0 || schema.field(0)->name() != "_index")
      throw_invalid("the first column of {} must be '_index'", name_);
    {
      const Hdf5Session session;
      group_ = create_group(target_.file, target_.path, name_);
    }
    types_ = schema.fields();
    for (int i = 1; i < schema.num_fields(); ++i) columns_.push_back(schema.field(i)->name());
    index_name_ = "_index";
    if (schema.metadata()) {
      const auto stored = schema.metadata()->Get("index_name");
      if (stored.ok() && !stored->empty() && stored->find('/') == std::string::npos &&
          std::find(columns_.begin(), columns_.end(), *stored) == columns_.end())
        index_name_ = *stored;
    }
    for (int i = 0; i < schema.num_fields(); ++i) {
      const std::string column = i == 0 ? index_name_ : columns_[i - 1];
      writers_.push_back(make_column_writer(target_, name_ + "/" + column, *schema.field(i)->type(),
                                            nullable_mark(*schema.field(i))));
    }
  }

  static std::string nullable_mark(const arrow::Field& field) {
    if (!field.HasMetadata()) return "";
    return field.metadata()->Get(anndata::kNullableKey).ValueOr("");
  }

  void check_columns(const arrow::Schema& schema) const {
    bool equal = schema.num_fields() == std::ssize(types_);
    for (int i = 0; equal && i < schema.num_fields(); ++i)
      equal = schema.field(i)->name() == types_[i]->name() &&
              has_same_encoding(*schema.field(i)->type(), *types_[i]->type());
    if (!equal)
      throw_invalid("every piece of {} must have the columns of the first: got {}", name_,
                    schema.ToString());
  }
  // Widths of dictionary indices may differ from piece to piece.
  static bool has_same_encoding(const arrow::DataType& a, const arrow::DataType& b) {
    if (a.id() != arrow::Type::DICTIONARY || b.id() != arrow::Type::DICTIONARY) return a.Equals(b);
    return static_cast<const arrow::DictionaryType&>(a).value_type()->Equals(
        *static_cast<const arrow::DictionaryType&>(b).value_type());
  }

  const WriteTarget& target_;
  std::string name_;
  std::string index_name_;
  Handle group_;
  arrow::FieldVector types_;
  std::vector<std::string> columns_;
  std::vector<std::unique_ptr<ColumnWriter>> writers_;
  std::int64_t n_rows_ = 0;
  std::unique_ptr<ColumnWriter> apart_;
  std::int64_t n_apart_ = 0;
};

struct H5adWriter::State {
  State(std::string target_path, const H5adWriterOptions& chosen, io::OnExisting on_existing)
      : path(std::move(target_path)),
        processing_json(chosen.processing_json),
        output(io::FileTarget(path), on_existing) {
    const Hdf5Session session;
    file = output.create_file();
    path = output.place();
    const int level = chosen.compression == Compression::kGzip ? chosen.gzip_level : 0;
    matrix_target = {file.get(), path, level, chosen.chunk_elements};
    column_target = {file.get(), path, level, kColumnChunkElements};
    obs = std::make_unique<FrameWriter>(column_target, "obs");
    var = std::make_unique<FrameWriter>(column_target, "var");
  }

  // Datasets close before their file; the temporary name goes last.
  ~State() {
    close_datasets();
    const Hdf5Session session;
    file = Handle();
    H5Eclear2(H5E_DEFAULT);
  }

  void close_datasets() {
    var.reset();
    obs.reset();
    matrices.clear();
  }

  void add_matrix(const FurtherMatrix& matrix, DType index_dtype) {
    if (matrix.path.starts_with("obsm/")) {
      matrices.push_back(
          make_array_writer(matrix_target, matrix.path, matrix.n_cols, matrix.value_dtype));
      return;
    }
    matrices.push_back(make_csr_writer({matrix_target, column_target}, matrix.path, matrix.n_cols,
                                       matrix.value_dtype, index_dtype));
  }

  const MatrixWriter& x() const { return *matrices[0]; }
  void require_unfinished() const {
    if (is_finished)
      throw Error(ErrorKind::kInvalidArgument, "the file is finished; nothing can be appended",
                  path);
  }
  void require_whole() const;
  void write_processing();

  std::string path;
  std::string processing_json;
  Hdf5Output output;
  Handle file;
  WriteTarget matrix_target;
  WriteTarget column_target;
  std::vector<std::unique_ptr<MatrixWriter>> matrices;  // X first
  std::unique_ptr<FrameWriter> obs;
  std::unique_ptr<FrameWriter> var;
  std::int64_t n_rows = 0;  // once it is finished, as below
  std::int64_t nnz = 0;
  bool is_finished = false;
};

// Marks scanpy's log1p, too, so that scanpy knows.
void H5adWriter::State::write_processing() {
  if (processing_json == "{}") return;
  {
    const Hdf5Session session;
    const auto is_there = [&](const char* name) {
      return H5Lexists(file.get(), name, H5P_DEFAULT) > 0;
    };
    if (!is_there("uns")) create_group(file.get(), path, "uns");
    const Processing done = read_processing(processing_json, path);
    if (done.is_log1p && !done.has_other_base() && !is_there("uns/log1p"))
      write_encoding(create_group(file.get(), path, "uns/log1p").get(), path, "dict", "0.1.0");
  }
  arrow::StringBuilder builder;
  check_arrow(builder.Append(processing_json));
  std::shared_ptr<arrow::Array> text;
  check_arrow(builder.Finish(&text));
  const auto writer = make_column_writer(column_target, kProcessingPath, *text->type());
  writer->append(*text);
  writer->finish();
}

H5adWriter::H5adWriter(std::string path, std::int64_t n_cols, H5adWriterOptions options,
                       io::OnExisting on_existing) {
  if (n_cols < 0) throw_invalid("n_cols must not be negative: {}", n_cols);
  if (options.chunk_elements < 1 || options.chunk_elements > (std::int64_t{1} << 26))
    throw_invalid("chunk_elements must be between 1 and 2^26: {}", options.chunk_elements);
  if (options.index_dtype != DType::kI32 && options.index_dtype != DType::kI64)
    throw_invalid("index_dtype must be int32 or int64: {}", dtype_name(options.index_dtype));
  if (options.compression == Compression::kGzip &&
      (options.gzip_level < 1 || options.gzip_level > 12))
    throw_invalid("gzip_level must be between 1 and 12: {}", options.gzip_level);
  state_ = std::make_unique<State>(std::move(path), options, on_existing);
  const Hdf5Session session;
  state_->add_matrix({"X", n_cols, options.value_dtype}, options.index_dtype);
  for (const FurtherMatrix& matrix : options.matrices)
    state_->add_matrix(matrix, options.index_dtype);
}

H5adWriter::~H5adWriter() = default;

void H5adWriter::append(const CsrSlice& rows, std::size_t matrix) {
  state_->require_unfinished();
  state_->matrices[matrix]->append(rows);
}

void H5adWriter::append(const matrix::CsrBlock& rows) {
  append({.indptr = rows.indptr.span(),
          .indices = rows.indices.data(),
          .values = matrix::value_buffer_data(rows.values),
          .dtype = matrix::value_buffer_dtype(rows.values)});
}

void H5adWriter::append_obs(const arrow::Table& obs) {
  state_->require_unfinished();
  state_->obs->append(obs);
}

void H5adWriter::append_library_sizes(std::span<const double> sizes) {
  if (!state_->obs->has_columns()) throw_invalid("library sizes come behind the obs of their rows");
  arrow::DoubleBuilder builder;
  check_arrow(builder.AppendValues(sizes.data(), std::ssize(sizes)));
  std::shared_ptr<arrow::Array> array;
  check_arrow(builder.Finish(&array));
  state_->obs->append_apart(kLibrarySizeColumn, *array);
}

std::vector<std::string> H5adWriter::carry(const CarriedFrom& from, const CarriedGroups& groups) {
  state_->require_unfinished();
  const Hdf5Session session;
  return copy_groups(from, groups, state_->file.get(), state_->path);
}

void H5adWriter::State::require_whole() const {
  if (obs->n_rows() != x().n_rows() || var->n_rows() != x().n_cols())
    throw_invalid("obs and var must fit the matrix: obs {} of {} rows, var {} of {} columns",
                  obs->n_rows(), x().n_rows(), var->n_rows(), x().n_cols());
  for (const auto& matrix : matrices)
    if (matrix->n_rows() != x().n_rows())
      throw_invalid("a matrix has {} of {} rows", matrix->n_rows(), x().n_rows());
}

void H5adWriter::finish(const arrow::Table* var) {
  State& s = *state_;
  if (s.is_finished)
    throw Error(ErrorKind::kInvalidArgument, "the file is finished already", s.path);
  s.n_rows = s.x().n_rows();
  s.nnz = s.x().nnz();
  s.is_finished = true;
  if (!s.obs->has_columns()) s.obs->append_numbered(s.n_rows);
  if (var != nullptr)
    s.var->append(*var);
  else
    s.var->append_numbered(s.x().n_cols());
  s.require_whole();
  for (const auto& matrix : s.matrices) matrix->finish();
  s.obs->finish();
  s.var->finish();
  s.write_processing();
  {
    const Hdf5Session session;
    write_encoding(s.file.get(), s.path, "anndata", "0.1.0");
    for (const char* name : {"layers", "obsm", "obsp", "uns", "varm", "varp"}) {
      const bool is_there = H5Lexists(s.file.get(), name, H5P_DEFAULT) > 0;
      const Handle group = is_there ? open_written(s.file.get(), s.path, name)
                                    : create_group(s.file.get(), s.path, name);
      if (H5Aexists(group.get(), "encoding-type") <= 0)
        write_encoding(group.get(), s.path, "dict", "0.1.0");
    }
    // A full disk may show only now; a close that fails would keep the error to itself.
    check_write(H5Fflush(s.file.get(), H5F_SCOPE_GLOBAL), s.path, "writing the file");
  }
  s.close_datasets();
  {
    const Hdf5Session session;
    check_write(H5Fclose(s.file.release()), s.path, "closing the file");
  }
  s.output.publish();
}

std::int64_t H5adWriter::nnz_written() const {
  return state_->is_finished ? state_->nnz : state_->x().nnz();
}

}  // namespace cellfeed::format::h5ad
