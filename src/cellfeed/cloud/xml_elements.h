// Elements of the XML that stores of objects answer with: by their names, without attributes. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed::cloud {

// The text of the first <name>...</name>, which is taken off with what stands before it.
bool take_element(std::string_view& rest, std::string_view name, std::string_view& text);
// The same; empty where there is none.
std::string_view element(std::string_view xml, std::string_view name);
// Throws kIo naming `path` unless this is the whole list of `what`, an element of this name that
// may have attributes.
void require_list(std::string_view xml, std::string_view name, std::string_view what,
                  const std::string& path);
// With the letters that entities, "&amp;", stand for.
std::string unescaped(std::string_view text);
std::string escaped(std::string_view text);

}  // namespace cellfeed::cloud
