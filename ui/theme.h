#pragma once
namespace octavo::ui {
}
