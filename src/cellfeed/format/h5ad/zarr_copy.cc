#include "cellfeed/format/h5ad/zarr_copy.h"

#include <algorithm>
#include <optional>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/format/h5ad/json_attributes.h"
#include "cellfeed/format/h5ad/zarr_elements.h"

namespace cellfeed::format::h5ad {
namespace {

namespace zr = cellfeed::zarr;

constexpr std::int64_t kMaxPieceBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxChunkBytes = std::int64_t{64} << 20;

Handle make_space(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return Handle(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return Handle(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
}

// What was compressed is deflated, in the chunks that it was read in.
Handle properties_of(const zr::ArrayMetadata& array) {
  std::vector<hsize_t> chunk;
  std::int64_t bytes = array.type.bytes;
  for (std::size_t d = 0; d < array.shape.size(); ++d) {
    const std::int64_t extent = std::min(array.inner_shape()[d], array.shape[d]);
    chunk.push_back(static_cast<hsize_t>(extent));
    bytes *= extent;
  }
  const bool is_deflated = array.codecs.name() != "none" && array.type.bytes > 0 &&
                           !chunk.empty() && bytes > 0 && bytes <= kMaxChunkBytes;
  return copied_properties(is_deflated ? chunk : std::vector<hsize_t>());
}

}  // namespace

void ZarrCopy::copy(const std::string& path) {
  const Hdf5Session session;
  if (from_.find(whole(path))) copy_node(path, 0);
}

void ZarrCopy::leave_out(const std::string& path, const std::string& why) {
  left_out_.push_back(path + ": " + why);
}

void ZarrCopy::copy_node(const std::string& path, int depth) {
  if (depth > kMaxGroupDepth)
    throw_error(ErrorKind::kCorruptData, from_.store().path(), "groups lie deeper than {}: '{}'",
                kMaxGroupDepth, path);
  if (std::ranges::count(skipped_, path)) return;
  const auto node = from_.find(whole(path));
  if (!node) return leave_out(path, "it has no metadata");
  for (const auto& [name, value] : node->attributes.items())
    if (const auto why = why_no_attribute(name, value))
      return leave_out(path, "its attribute '" + name + "' " + *why);
  if (node->is_array)
    copy_array(*node, path);
  else
    copy_group(*node, path, depth);
}

void ZarrCopy::copy_group(const zr::Node& node, const std::string& path, int depth) {
  const bool is_there = H5Lexists(to_, path.c_str(), H5P_DEFAULT) > 0;
  Handle made = is_there ? open_written(to_, to_path_, path) : create_group(to_, to_path_, path);
  if (!is_there) copy_attributes(node, made.get());
  const std::size_t n_left_out = left_out_.size();
  for (const std::string& name : from_.members(whole(path))) {
    const std::string below = path + "/" + name;
    if (name == "." || name == ".." || name.find('\0') != std::string::npos) {
      leave_out(below, "a name that leads nowhere");
      continue;
    }
    if (is_there && H5Lexists(to_, below.c_str(), H5P_DEFAULT) > 0) continue;
    try {
      copy_node(below, depth + 1);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      leave_out(below, error.what());
    }
  }
  const auto encoding = node.attributes.find("encoding-type");
  if (is_there || encoding == node.attributes.end() || !encoding->is_string()) return;
  made = {};
  remove_if_broken(to_, to_path_, path, encoding->get<std::string>(), n_left_out, left_out_);
}

void ZarrCopy::copy_array(const zr::Node& node, const std::string& path) {
  ZarrRows rows(from_, whole(path), from_.array_of(node, whole(path)));
  const zr::ArrayMetadata& array = rows.array();
  if (!is_copied(array.type)) return leave_out(path, "of type " + array.type.text);
  if (rows.piece_bytes() > kMaxPieceBytes)
    return leave_out(path, "its chunks are larger than 1 GiB together");
  const std::int64_t step = rows.rows_per_piece();
  const std::int64_t n = rows.row_elements() == 0 ? 0 : rows.n_rows();
  const std::string operation = "writing '" + path + "'";
  const Handle type = element_type_of(array.type);
  Handle made =
      check_written(H5Dcreate2(to_, path.c_str(), type.get(), make_space(array.shape).get(),
                               H5P_DEFAULT, properties_of(array).get(), H5P_DEFAULT),
                    to_path_, operation);
  try {
    copy_attributes(node, made.get());
    for (std::int64_t begin = 0; begin < n; begin += step)
      write_piece(rows, begin, std::min(step, n - begin), made.get(), path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    made = {};
    remove_written(to_, to_path_, path);
    throw;
  }
}

void ZarrCopy::write_piece(ZarrRows& rows, std::int64_t begin, std::int64_t n, hid_t dataset,
                           const std::string& path) const {
  const zr::ArrayMetadata& array = rows.array();
  const auto elements = read_elements(rows, begin, n, from_.store().path(), path);
  const Handle memory = element_type_of(array.type);
  const std::string operation = "writing '" + path + "'";
  if (array.shape.empty()) {
    check_write(H5Dwrite(dataset, memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements->data()),
                to_path_, operation);
    return;
  }
  write_rows(dataset, memory.get(), {array.shape.begin(), array.shape.end()},
             static_cast<hsize_t>(begin), static_cast<hsize_t>(n), elements->data(), to_path_,
             operation);
}

void ZarrCopy::copy_attributes(const zr::Node& node, hid_t to) const {
  for (const auto& [name, value] : node.attributes.items())
    write_json_attribute(to, to_path_, name, value);
}

}  // namespace cellfeed::format::h5ad
