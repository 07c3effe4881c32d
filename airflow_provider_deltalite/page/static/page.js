// Copies texts, opens pages of Airflow in the whole window, moves the sliders of versions, and loads late measures.
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

  // A slider shows its version in the number beside it, and the time of this version. The release of the mouse loads the
  // version; a key does not, because a person may press it many times.
  const times = JSON.parse(document.querySelector("[data-version-times]")?.dataset.versionTimes ?? "{}");
  for (const slider of document.querySelectorAll("input[data-version]")) {
    const number = document.getElementById(slider.dataset.version);
    const time = slider.form.querySelector(`output[for="${slider.dataset.version}"]`);
    const showTime = () => { time.value = times[number.value] ?? ""; };
    slider.addEventListener("input", () => { number.value = slider.value; showTime(); });
    number.addEventListener("input", () => { slider.value = number.value; showTime(); });
    showTime();
    slider.addEventListener("pointerup", () => {
      if (slider.value !== slider.defaultValue) slider.form.requestSubmit();
    });
  }

  // A second click on the button of a form that changes something would change it twice.
  document.addEventListener("submit", (event) => {
    const button = event.target.querySelector("button[data-once]");
    if (button) button.disabled = true;
  });

  // The measures of a table with very many files come after the page, and so do statistics of columns that were not read
  // in time. The style sheet reserves the height of the measures.
  const showMeasures = async (address, tries) => {
    const answer = await fetch(address, { credentials: "same-origin" });
    if (answer.status === 202 && tries > 0) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return showMeasures(address, tries - 1);
    }
    if (answer.status !== 200) throw new Error(answer.statusText);
    const parts = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts.querySelectorAll("[data-part]")) {
      for (const target of document.querySelectorAll(`[data-measured="${part.dataset.part}"]`)) {
        target.replaceChildren(...part.childNodes);
        target.removeAttribute("aria-busy");
      }
    }
    status.textContent = "The page now shows the measures of the table.";
  };
  for (const pending of document.querySelectorAll("[data-measures]")) {
    showMeasures(pending.dataset.measures, 30).catch(() => {
      for (const target of document.querySelectorAll("[data-measured][aria-busy]")) {
        target.removeAttribute("aria-busy");
      }
      status.textContent = "Reload the page to see the measures of the table.";
    });
  }
})();
