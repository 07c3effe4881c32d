// Sets the theme before the first paint: the theme of the surrounding Airflow page. Without such a page, the theme that
// the browser stored for Airflow. Without both, the theme of the system.
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
