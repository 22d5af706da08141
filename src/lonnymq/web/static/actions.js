// Sends the forms of class "action" as JSON to the API, tells how it went, and reads the page again.
"use strict";

(() => {
  const toast = document.getElementById("toast");
  const dialog = document.getElementById("confirm");
  let clearing;

  function tell(text, failed) {
    toast.className = failed ? "failed" : "";
    toast.setAttribute("role", failed ? "alert" : "status");
    toast.textContent = text;
    clearTimeout(clearing);
    clearing = setTimeout(() => { toast.textContent = ""; }, failed ? 15000 : 6000);
  }

  function confirmed(text) {
    if (!text) return Promise.resolve(true);
    document.getElementById("confirm-text").textContent = text;
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    });
  }

  // A field that is empty is left out. data-type says what a value is: number, boolean, text, or limit, which is
  // a number or a word.
  function bodyOf(form, submitter) {
    const body = JSON.parse(form.dataset.body || "{}");
    const fields = [...form.elements].filter((field) => field.name && field.type !== "submit");
    if (submitter && submitter.name) fields.push(submitter);
    for (const field of fields) {
      if (field.type === "checkbox") { body[field.name] = field.checked; continue; }
      if (field.value === "") continue;
      const type = field.dataset.type || (field.type === "number" ? "number" : "text");
      const isNumber = type === "number" || (type === "limit" && !Number.isNaN(Number(field.value)));
      body[field.name] =
        isNumber ? Number(field.value) : type === "boolean" ? field.value === "true" : field.value;
    }
    return body;
  }

  function sentence(text, answer) {
    return text.replace(/\{(\w+)\}/g, (_, name) => answer && name in answer ? String(answer[name]) : "?");
  }

  async function send(form, submitter) {
    const asked = (submitter && submitter.dataset.confirm) || form.dataset.confirm;
    if (!(await confirmed(asked))) return;
    const body = bodyOf(form, submitter);
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    try {
      const response = await fetch(form.dataset.url, {
        method: form.dataset.method || "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      const answer = await response.json().catch(() => null);
      if (!response.ok) {
        tell(answer ? answer.message + (answer.hint ? ` (${answer.hint})` : "") : `It failed (${response.status}).`, true);
        return;
      }
      const said = sentence((submitter && submitter.dataset.done) || form.dataset.done || "Done.", answer);
      const stays = submitter && submitter.dataset.stay !== undefined;
      // First the page, then the message: whoever reads it and types meanwhile would lose what they typed.
      if (!stays && !form.dataset.then) {
        const again = { target: "#main", select: "#main", swap: "outerHTML" };
        const read = htmx.ajax("GET", location.pathname + location.search, again).catch(() => null);
        await Promise.race([read, new Promise((resolve) => { setTimeout(resolve, 3000); })]);
      }
      tell(said, false);
      if (!stays && form.dataset.then) location.assign(form.dataset.then);
    } catch (error) {
      tell(`The dashboard does not answer: ${error.message}`, true);
    } finally {
      for (const button of form.querySelectorAll("button")) button.disabled = false;
    }
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.action")) return;
    event.preventDefault();
    send(event.target, event.submitter);
  });

  // A page that nobody sees reads nothing. A part is not replaced under an open dialog, nor while somebody moves
  // in it by keyboard.
  const isInUse = (part) => part.classList.contains("live")
    && (document.hidden || dialog.open || part.querySelector(":focus-visible") !== null);
  for (const moment of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
    document.addEventListener(moment, (event) => {
      if (isInUse(event.target)) event.preventDefault();
    });
  }

  // The browser, or the extension of htmx, connects again by itself.
  function lost(isLost) {
    const trouble = document.getElementById("trouble");
    if (trouble) trouble.textContent = isLost ? "The dashboard does not answer. This page goes on by itself when it does." : "";
  }

  document.addEventListener("htmx:sseError", () => lost(true));
  document.addEventListener("htmx:sseOpen", () => lost(false));
  document.addEventListener("htmx:sendError", () => tell("The dashboard does not answer.", true));
})();
