// Buttons that copy texts, in the viewer and in reports.

export function copyButton(name, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = name;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch { button.textContent = "The browser forbids copying"; }
    setTimeout(() => { button.textContent = name; }, 2000);
  });
  return button;
}

// A button at each program of a pair, in the line above it.
export function copyPrograms(page) {
  for (const program of page.querySelectorAll(".pair pre:not(:has(> i:only-child))")) program.previousElementSibling.append(" ", copyButton("Copy the code", program.textContent));
}
