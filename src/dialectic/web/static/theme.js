// Before the first paint, so that a dark page never flashes white.
try { const theme = localStorage.getItem("dialectic:theme"); if (theme) document.documentElement.dataset.theme = theme; } catch { /* storage is off */ }
