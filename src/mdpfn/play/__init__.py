"""`mdpfn play`: a page in the browser on which worlds are drawn, learned and raced in."""
