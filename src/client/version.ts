/** This client's version; the same as the package's, which a test compares. */
export const VERSION = "0.1.0";
