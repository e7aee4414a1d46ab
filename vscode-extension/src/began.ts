/** When the extension's code began to run; imported first, so that what loading it costs can be told. */

export const BEGAN = performance.now();
