// Google Cloud Storage, by its JSON API.
#pragma once

#include "cellfeed/cloud/object_store.h"

namespace cellfeed::cloud {

const ObjectStore& google_store();

}  // namespace cellfeed::cloud
