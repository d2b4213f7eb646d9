// Boxes that scroll sideways can be reached by keyboard. The lines of a signature are no list of definitions.
addEventListener("DOMContentLoaded", () => {
  const reach = () => {
    for (const box of document.querySelectorAll("pre, .table-wrapper, .output, .cell_output > div, .math"))
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  };
  for (const part of document.querySelectorAll(".sig dl, .sig dl dd")) part.setAttribute("role", "presentation");
  reach();
  addEventListener("resize", reach);
});
