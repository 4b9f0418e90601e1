<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en_US">
<context>
    <name>octavo::ui::AddRepositoryDialog</name>
    <message numerus="yes">
        <source>Give it to %n panes</source>
        <translation>
            <numerusform>Give it to %n pane</numerusform>
            <numerusform>Give it to %n panes</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::ContextModel</name>
    <message numerus="yes">
        <source>%n panes</source>
        <translation>
            <numerusform>%n pane</numerusform>
            <numerusform>%n panes</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%Ln files packed, %1 left out</source>
        <translation>
            <numerusform>%Ln file packed, %1 left out</numerusform>
            <numerusform>%Ln files packed, %1 left out</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::FileTreeModel</name>
    <message numerus="yes">
        <source>%Ln files</source>
        <translation>
            <numerusform>%Ln file</numerusform>
            <numerusform>%Ln files</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::FilesPage</name>
    <message numerus="yes">
        <source>of %1 tokens · room for about %Ln answers</source>
        <translation>
            <numerusform>of %1 tokens · room for about %Ln answer</numerusform>
            <numerusform>of %1 tokens · room for about %Ln answers</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Special-token text found in %Ln files is read as plain text.</source>
        <translation>
            <numerusform>Special-token text found in %Ln file is read as plain text.</numerusform>
            <numerusform>Special-token text found in %Ln files is read as plain text.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::HistoryModel</name>
    <message numerus="yes">
        <source>%n messages</source>
        <translation>
            <numerusform>%n message</numerusform>
            <numerusform>%n messages</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::MainWindow</name>
    <message numerus="yes">
        <source>Sent to %n panes</source>
        <translation>
            <numerusform>Sent to %n pane</numerusform>
            <numerusform>Sent to %n panes</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n panes are busy and keep their context.</source>
        <translation>
            <numerusform>%n pane is busy and keeps its context.</numerusform>
            <numerusform>%n panes are busy and keep their context.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n panes are busy.</source>
        <translation>
            <numerusform>%n pane is busy.</numerusform>
            <numerusform>%n panes are busy.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more refused it.</source>
        <translation>
            <numerusform>%n more refused it.</numerusform>
            <numerusform>%n more refused it.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::SavedContextsPage</name>
    <message numerus="yes">
        <source>Reading %Ln files…</source>
        <translation>
            <numerusform>Reading %Ln file…</numerusform>
            <numerusform>Reading %Ln files…</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%Ln files cannot be used. Remove them; those contexts are read again.</source>
        <translation>
            <numerusform>%Ln file cannot be used. Remove it; that context is read again.</numerusform>
            <numerusform>%Ln files cannot be used. Remove them; those contexts are read again.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Remove all %Ln contexts (%1)? Each is read anew when it is needed next.</source>
        <translation>
            <numerusform>Remove the one context (%1)? It is read anew when it is needed next.</numerusform>
            <numerusform>Remove all %Ln contexts (%1)? Each is read anew when it is needed next.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%Ln contexts removed.</source>
        <translation>
            <numerusform>%Ln context removed.</numerusform>
            <numerusform>%Ln contexts removed.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::ModelPage</name>
    <message numerus="yes">
        <source>%1: %n modules</source>
        <translation>
            <numerusform>%1: %n module</numerusform>
            <numerusform>%1: %n modules</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>octavo::ui::TranscriptWords</name>
    <message numerus="yes">
        <source>%Ln tokens</source>
        <translation>
            <numerusform>%Ln token</numerusform>
            <numerusform>%Ln tokens</numerusform>
        </translation>
    </message>
</context>
</TS>
