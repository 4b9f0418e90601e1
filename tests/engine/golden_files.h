#pragma once

/// Reference values in tests/data/goldens, for tests. A file that cannot be read ends the test program.

#include "engine/backend/backend_factory.h"
#include "engine/model/safetensors.h"
#include "engine/model/weights.h"

#include <QByteArray>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace octavo::engine::test
{

inline std::string goldenPath(const std::string& name)
{
    return std::string(OCTAVO_TEST_DATA "/goldens/") + name;
}

/// A model with the config that belongs to it.
struct LoadedModel {
    ModelConfig config;
    std::shared_ptr<const ModelWeights> weights;
};

inline LoadedModel loadModel(const std::string& dir)
{
    auto config = ModelConfig::load(dir);
    if (!config)
        qFatal("%s", config.error().message.c_str());
    auto weights = ModelWeights::open(dir, *config);
    if (!weights)
        qFatal("%s", weights.error().message.c_str());
    return {*config, std::make_shared<const ModelWeights>(*std::move(weights))};
}

inline LoadedModel demoModel()
{
    return loadModel(OCTAVO_RESOURCES "/demo-model");
}
inline LoadedModel tinyModel()
{
    return loadModel(goldenPath("tiny"));
}

inline std::unique_ptr<Backend> referenceBackend(const LoadedModel& model, const BackendOptions& options = {})
{
    auto backend = makeReferenceBackend(model.config, model.weights, options);
    if (!backend)
        qFatal("%s", backend.error().message.c_str());
    return *std::move(backend);
}

/// One tensor of 4-byte elements out of a safetensors file.
template <typename T>
std::vector<T> readTensor(const std::string& path, const std::string& name)
{
    static_assert(sizeof(T) == 4);
    auto file = MappedFile::open(path);
    if (!file)
        qFatal("%s", file.error().message.c_str());
    auto header = SafetensorsHeader::parse(file->bytes(), file->bytes().size(), path);
    if (!header)
        qFatal("%s", header.error().message.c_str());
    for (const TensorInfo& tensor : header->tensors) {
        if (tensor.name != name)
            continue;
        std::vector<T> values((tensor.end - tensor.begin) / 4);
        std::memcpy(values.data(), file->bytes().data() + header->dataStart + tensor.begin, tensor.end - tensor.begin);
        return values;
    }
    qFatal("%s has no tensor %s", path.c_str(), name.c_str());
}

inline QJsonDocument readJson(const std::string& path)
{
    QFile file(QString::fromStdString(path));
    if (!file.open(QIODevice::ReadOnly))
        qFatal("%s cannot be read", path.c_str());
    return QJsonDocument::fromJson(file.readAll());
}

inline std::vector<TokenId> tokenIds(const QJsonArray& array)
{
    std::vector<TokenId> ids;
    for (const QJsonValue& value : array)
        ids.push_back(TokenId(value.toInt()));
    return ids;
}

} // namespace octavo::engine::test
