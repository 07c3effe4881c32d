// Sets a theme before the first paint: that of the surrounding Airflow page, or without one the theme that the browser
// stored for Airflow, or else that of the system.
(() => {
  const root = document.documentElement;
  const outer = (() => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // a page of another origin surrounds this one
    }
  })();
  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const apply = () => {
    const isDark = outer === null ? stored() === "dark" : outer.classList.contains("dark");
    const isLight = outer === null ? stored() === "light" : outer.classList.contains("light");
    root.dataset.theme = isDark ? "dark" : isLight ? "light" : "system";
  };
  apply();
  root.dataset.script = "on";
  if (outer !== null) {
    new MutationObserver(apply).observe(outer, { attributes: true, attributeFilter: ["class"] });
  }
})();
