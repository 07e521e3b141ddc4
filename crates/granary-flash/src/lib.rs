//! NAND flash array and flash translation layer.
