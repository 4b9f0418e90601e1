#pragma once

/// A workbench to try: on a fake engine and a repository of two files.

#include "agents/workbench.h"
#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"

#include <QSignalSpy>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace octavo::agents::tests {

/// A workbench on a fake engine, started, with a context of two files.
struct Bench {
    GitFixture fixture;
    QTemporaryDir data;
    QStringList saveProblems; ///< as they came since open()
    QString database = data.filePath(QStringLiteral("octavo.db"));
    octavo::test::FakeEngine* engine = nullptr;
    std::unique_ptr<Workbench> workbench;
    std::function<octavo::test::Script(const engine::GenerationRequest&)> script;
    std::int64_t contextLimit = 250'000;

    Q_DISABLE_COPY_MOVE(Bench)
    explicit Bench(std::function<octavo::test::Script(const engine::GenerationRequest&)> scriptFor = {})
        : script(std::move(scriptFor))
    {
        fixture.write("src/join.cpp", "int join(int a, int b)\n{\n    return a + b;\n}\n");
        fixture.write("README.md", "# Sample\n");
        fixture.commit();
    }

    void open()
    {
        workbench.reset();
        WorkbenchOptions options;
        options.databasePath = database;
        auto fake = std::make_unique<octavo::test::FakeEngine>(script, contextLimit);
        engine = fake.get();
        workbench = std::make_unique<Workbench>(options, std::move(fake));
        saveProblems.clear();
        QObject::connect(workbench.get(), &Workbench::saveProblem, workbench.get(),
                         [this](const QString& problem) { saveProblems += problem; });
        QSignalSpy ready(workbench.get(), &Workbench::ready);
        workbench->start();
        QVERIFY(ready.wait());
    }

    IngestResult preview()
    {
        IngestOptions options;
        options.repository = fixture.root();
        std::unique_ptr<IngestJob> job(workbench->preview(options));
        IngestResult out;
        bool done = false;
        QObject::connect(job.get(), &IngestJob::finished, job.get(), [&](const IngestResult& result) {
            out = result;
            done = true;
        });
        if (!QTest::qWaitFor([&] { return done; }))
            qWarning("preview did not finish");
        return out;
    }

    ContextId addContext()
    {
        IngestOptions options;
        options.repository = fixture.root();
        return workbench->addContext(options, preview());
    }

    ContextInfo context(ContextId id) const
    {
        for (const ContextInfo& info : workbench->contexts()) {
            if (info.id == id)
                return info;
        }
        return {};
    }

    void openWithContext(int panes = 1)
    {
        open();
        const ContextId id = addContext();
        QTRY_COMPARE(context(id).state, ContextState::Read);
        for (int i = 0; i < panes; ++i)
            workbench->agent(i)->setContext(id);
    }

    Agent& agent(int index = 0) const { return *workbench->agent(index); }

    std::vector<engine::GenerationRequest> questions() const
    {
        std::vector<engine::GenerationRequest> out;
        for (const auto& request : engine->requests()) {
            if (request.maxNewTokens > 0)
                out.push_back(request);
        }
        return out;
    }
};

inline octavo::test::Script saying(std::vector<std::string> pieces)
{
    octavo::test::Script out;
    out.pieces = std::move(pieces);
    return out;
}

inline void check(const Result<void>& result)
{
    QVERIFY2(result, result ? "" : result.error().message.c_str());
}

#define WAIT_IDLE(agent) QTRY_COMPARE((agent).status().activity, Activity::Idle)

} // namespace octavo::agents::tests
