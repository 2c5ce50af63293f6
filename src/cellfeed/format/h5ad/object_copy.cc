#include "cellfeed/format/h5ad/object_copy.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/hdf5_types.h"
#include "cellfeed/format/h5ad/hdf5_write.h"
#include "cellfeed/hdf5/dataset_bytes.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr std::uint64_t kCopyPieceBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kMaxRowBytes = std::uint64_t{256} << 20;
// More than this many times its file no dataset inflates to, other than by what was never written.
constexpr std::uint64_t kMaxExpansion = 1100;

Handle make_space(const hdf5::Dataspace& space) {
  if (space.kind == hdf5::Dataspace::Kind::kNull) return Handle(H5Screate(H5S_NULL));
  if (space.shape.empty()) return Handle(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> shape(space.shape.begin(), space.shape.end());
  return Handle(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
}

bool is_compressed(const hdf5::Dataset& dataset) {
  return !dataset.filters().empty() && dataset.space().n_elements > 0 && !dataset.shape().empty();
}

// Chunks as the source's; what was filtered is deflated.
Handle properties_of(const hdf5::Dataset& dataset) {
  const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&dataset.layout());
  std::vector<hsize_t> chunk;
  if (chunked != nullptr && is_compressed(dataset))
    for (std::size_t d = 0; d < dataset.shape().size(); ++d)
      chunk.push_back(std::min(chunked->chunk_shape[d], dataset.shape()[d]));
  return copied_properties(chunk);
}

std::uint64_t row_bytes_of(const hdf5::Dataset& dataset) {
  std::uint64_t bytes = dataset.datatype().size;
  for (std::size_t d = 1; d < dataset.shape().size(); ++d) bytes *= dataset.shape()[d];
  return bytes;
}

// Rows that are read together: whole chunks.
std::uint64_t rows_per_piece(const hdf5::Dataset& dataset) {
  const std::uint64_t rows = std::max<std::uint64_t>(
      1, kCopyPieceBytes / std::max<std::uint64_t>(1, row_bytes_of(dataset)));
  const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&dataset.layout());
  if (chunked == nullptr) return rows;
  return std::max<std::uint64_t>(1, rows / chunked->chunk_shape[0]) * chunked->chunk_shape[0];
}

}  // namespace

void ObjectCopy::copy(const std::string& path) {
  const auto object = from_.find(root_ + "/" + path);
  if (!object) return;
  const Hdf5Session session;
  copy_object(*object, path, 0);
}

void ObjectCopy::leave_out(const std::string& path, const std::string& why) {
  left_out_.push_back(path + ": " + why);
}

void ObjectCopy::copy_object(const hdf5::Object& object, const std::string& path, int depth) {
  if (depth > kMaxGroupDepth)
    throw_error(ErrorKind::kCorruptData, from_.path(), "groups lie deeper than {}: '{}'",
                kMaxGroupDepth, path);
  if (std::ranges::count(skipped_, path)) return;
  if (const auto it = written_.find(object.address()); it != written_.end()) {
    check_write(
        H5Lcreate_hard(to_, it->second.c_str(), to_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT),
        to_path_, "linking '" + path + "'");
    return;
  }
  for (const hdf5::Attribute& attribute : object.attributes())
    if (!is_copied(attribute.type) && attribute.space.n_elements > 0)
      return leave_out(path, "its attribute '" + attribute.name + "' is of type " +
                                 attribute.type.description());
  if (object.kind() == hdf5::ObjectKind::kGroup)
    copy_group(object.group(), path, depth);
  else if (object.kind() == hdf5::ObjectKind::kDataset)
    copy_dataset(object.dataset(), path);
  else
    leave_out(path, "a named datatype");
}

void ObjectCopy::copy_group(const hdf5::Group& group, const std::string& path, int depth) {
  written_.emplace(group.address(), path);
  const bool is_there = H5Lexists(to_, path.c_str(), H5P_DEFAULT) > 0;
  Handle made = is_there ? open_written(to_, to_path_, path) : create_group(to_, to_path_, path);
  if (!is_there) copy_attributes(group, made.get());
  const std::size_t n_left_out = left_out_.size();
  for (const std::string& name : group.member_names()) {
    const std::string below = path + "/" + name;
    if (name.empty() || name == "." || name == "..") {
      leave_out(below, "a name that leads nowhere");
      continue;
    }
    if (is_there && H5Lexists(to_, below.c_str(), H5P_DEFAULT) > 0) continue;
    try {
      if (const auto member = group.find(name))
        copy_object(*member, below, depth + 1);
      else
        leave_out(below, "a link that leads nowhere");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      leave_out(below, error.what());
    }
  }
  if (is_there) return;
  made = {};
  const std::string encoding = group.text_attribute("encoding-type").value_or("");
  if (remove_if_broken(to_, to_path_, path, encoding, n_left_out, left_out_))
    std::erase_if(written_, [&](const auto& entry) {
      return entry.second == path || entry.second.starts_with(path + "/");
    });
}

void ObjectCopy::copy_dataset(const hdf5::Dataset& dataset, const std::string& path) {
  const hdf5::Datatype& type = dataset.datatype();
  if (!is_copied(type)) return leave_out(path, "of type " + type.description());
  const hdf5::DatasetBytes bytes(dataset);
  const bool is_line = dataset.shape().size() > 0;
  if (bytes.n_bytes() / kMaxExpansion > dataset.bytes().size())
    throw_error(ErrorKind::kCorruptData, from_.path(),
                "a dataset larger than its file can hold: '{}': {} bytes", path, bytes.n_bytes());
  if (is_line && bytes.n_bytes() > 0 && row_bytes_of(dataset) > kMaxRowBytes)
    return leave_out(path, "rows too long");
  const std::string operation = "writing '" + path + "'";
  const Handle space = make_space(dataset.space());
  const Handle made =
      check_written(H5Dcreate2(to_, path.c_str(), element_type(type).get(), space.get(),
                               H5P_DEFAULT, properties_of(dataset).get(), H5P_DEFAULT),
                    to_path_, operation);
  copy_attributes(dataset, made.get());
  written_.emplace(dataset.address(), path);
  if (dataset.space().n_elements == 0) return;
  const Handle memory = element_type(type);
  if (!is_line) {
    const auto stored = bytes.read_all(kMaxRowBytes);
    const MemoryElements elements(dataset.bytes(), type, stored);
    check_write(H5Dwrite(made.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()),
                to_path_, operation);
    return;
  }
  const std::uint64_t step = rows_per_piece(dataset);
  const std::vector<hsize_t> shape(dataset.shape().begin(), dataset.shape().end());
  hdf5::Box box{std::vector<std::uint64_t>(dataset.shape().size(), 0), dataset.shape()};
  for (; box.begin[0] < dataset.shape()[0]; box.begin[0] += step) {
    box.shape[0] = std::min(step, dataset.shape()[0] - box.begin[0]);
    std::vector<std::byte> stored(static_cast<std::size_t>(box.shape[0] * row_bytes_of(dataset)));
    bytes.read(box, stored);
    const MemoryElements elements(dataset.bytes(), type, stored);
    write_rows(made.get(), memory.get(), shape, box.begin[0], box.shape[0], elements.data(),
               to_path_, operation);
  }
}

void ObjectCopy::copy_attributes(const hdf5::Object& object, hid_t to) {
  for (const hdf5::Attribute& attribute : object.attributes()) {
    if (!is_copied(attribute.type)) continue;  // without elements: see copy_object
    const std::string operation = "writing attribute '" + attribute.name + "'";
    const Handle made =
        check_written(H5Acreate2(to, attribute.name.c_str(), element_type(attribute.type).get(),
                                 make_space(attribute.space).get(), H5P_DEFAULT, H5P_DEFAULT),
                      to_path_, operation);
    if (attribute.space.n_elements == 0) continue;
    const MemoryElements elements(object.bytes(), attribute.type, attribute.value.view());
    check_write(H5Awrite(made.get(), element_type(attribute.type).get(), elements.data()), to_path_,
                operation);
  }
}

}  // namespace cellfeed::format::h5ad
