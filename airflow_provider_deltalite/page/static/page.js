// Copies texts, and opens pages of Airflow in the whole window.
(() => {
  const status = document.getElementById("status");

  const copy = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return;
    }
    // Airflow without HTTPS has no clipboard interface.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    if (!isCopied) throw new Error("not copied");
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) {
      const source = document.getElementById(button.dataset.copy);
      try {
        await copy(source.textContent);
        button.textContent = "Copied";
        status.textContent = "Copied.";
      } catch {
        button.textContent = "Select and copy";
        window.getSelection().selectAllChildren(source);
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
      return;
    }
    // Airflow's frame lets no link leave it, so a link of the surrounding page opens the address.
    const link = event.target.closest("a[target=_top]");
    if (!link || window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    try {
      const outer = window.parent.document.createElement("a");
      outer.href = link.href;
      window.parent.document.body.append(outer);
      outer.click();
      outer.remove();
      event.preventDefault();
    } catch {
      // a page of another origin surrounds this one: the browser decides
    }
  });
})();
